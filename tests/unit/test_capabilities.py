"""What an executor may say of itself, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest

from job_worker.rpc import convert_requests
from shared.domain.errors import InvalidInput
from shared.gen.baton.v1 import execution_service_pb2 as pb

MANY = convert_requests.VERSION_PAIRS_MAX


def capability(job_type: str, inputs: Sequence[int], outputs: Sequence[int]) -> pb.Capability:
    return pb.Capability(job_type=job_type, input_schema_versions=inputs, output_schema_versions=outputs)


def hello(*capabilities: pb.Capability) -> pb.OpenSessionRequest:
    message = pb.Hello(executor_name="e", incarnation_id=str(uuid4()), capabilities=capabilities)
    return pb.OpenSessionRequest(hello=message)


def test_many_versions_are_taken_up_to_the_limit() -> None:
    read = convert_requests.hello(hello(capability("synthetic", range(1, MANY + 1), [1])))

    assert len(read.capabilities[0].input_schema_versions) == MANY


@pytest.mark.parametrize(
    "capabilities",
    [
        [capability("synthetic", range(1, 1_001), range(1, 1_001))],
        [capability(f"type_{number}", [1], [1]) for number in range(MANY + 1)],
        [capability("synthetic", [1], [1])] * (MANY + 1),
    ],
    ids=["versions", "types", "repetitions"],
)
def test_more_pairs_of_versions_than_the_service_can_look_into_are_refused(
    capabilities: Sequence[pb.Capability],
) -> None:
    with pytest.raises(InvalidInput) as caught:
        convert_requests.hello(hello(*capabilities))

    assert [each.field for each in caught.value.violations] == ["hello.capabilities"]
