"""What job types and queues must be before anything starts, and what a deployment may change about them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from shared.catalog import catalog, synthetic
from shared.catalog.catalog import UNKNOWN_TYPE_POLICY, Catalog, CatalogFault, JobTypeOverride
from shared.catalog.definition import CredentialMode, Limits
from shared.catalog.queues import MEDIA_QUEUES, SHIPPED_QUEUES, QueueOverride
from shared.domain.errors import UnknownJobType
from shared.domain.identity import JobType
from shared.domain.leases import TypeLimits

GOOD = synthetic.DEFINITION


class Open(BaseModel):
    """Takes any field, which no input may."""


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"job_type": "Bad-Name"}, "job_type must match"),
    ({"job_type": "x"}, "job_type must match"),
    ({"label": ""}, "label must not be empty"),
    ({"description": ""}, "description must not be empty"),
    ({"projector": ""}, "projector must not be empty"),
    ({"queue": "nowhere"}, "there is no queue 'nowhere'"),
    ({"timeout": timedelta(seconds=0.5)}, "timeout must be 1 s to 600 s"),
    ({"timeout": timedelta(seconds=601)}, "timeout must be 1 s to 600 s"),
    ({"default_priority": 101}, "default_priority must be 0 to 100"),
    ({"max_retries": -1}, "max_retries must be at least 0"),
    ({"version": 0}, "versions must be at least 1"),
    ({"input_schema_version": 0}, "versions must be at least 1"),
    ({"grace": timedelta(0)}, "grace and provider_timeout must be positive"),
    ({"start_by": timedelta(0)}, "start_by must be positive"),
    ({"default_credential_mode": CredentialMode.USER_KEY}, "default_credential_mode must be one of"),
    ({"input_model": Open}, "input_model must refuse unknown fields"),
    ({"output_model": Open}, "output_model must refuse unknown fields"),
    ({"upload_field": "nothing"}, "upload_field must be a field of input_model"),
    ({"redacted_output_fields": frozenset({"nothing"})}, "redacted_output_fields must be fields"),
    ({"limits": Limits(losses=0)}, "limits must be 1 to 1,000,000, per_second at least 0.0001"),
    ({"limits": Limits(at_once=0)}, "limits must be 1 to 1,000,000"),
    ({"limits": Limits(at_once=1_000_001)}, "limits must be 1 to 1,000,000"),
    ({"limits": Limits(at_once_per_owner=-1)}, "limits must be 1 to 1,000,000"),
    ({"limits": Limits(per_second=0.0)}, "limits must be 1 to 1,000,000"),
    ({"limits": Limits(per_second=math.nan)}, "limits must be 1 to 1,000,000"),
    ({"limits": Limits(per_second=math.inf)}, "limits must be 1 to 1,000,000"),
    ({"content_safety_check": True}, "are not done yet"),
]


@pytest.mark.parametrize(("changes", "sentence"), FAULTS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_with_a_definition_is_told_in_a_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CatalogFault) as raised:
        Catalog([replace(GOOD, **changes)], SHIPPED_QUEUES)

    assert any(sentence in fault for fault in raised.value.faults)


def test_all_faults_are_told_at_once() -> None:
    twice = [GOOD, GOOD, replace(GOOD, job_type=JobType("other"), label="", projector="")]
    with pytest.raises(CatalogFault) as raised:
        Catalog(twice, [*SHIPPED_QUEUES, SHIPPED_QUEUES[0]])

    assert len(raised.value.faults) == 4


def test_the_shipped_catalog_is_sound_and_tells_which_queues_nothing_feeds() -> None:
    shipped = catalog.load()

    media = {name for names in MEDIA_QUEUES.values() for name in names}
    assert set(shipped.definitions) == {"document_import", "synthetic"} | media
    assert shipped.unfed_queues() == ["ai-background", "ai-interactive", "maintenance"]
    with pytest.raises(UnknownJobType):
        shipped.definition("nothing")


def test_a_module_that_can_not_be_imported_is_a_fault() -> None:
    with pytest.raises(CatalogFault, match=r"'no_such_package\.definitions' can't be imported"):
        catalog.load(["no_such_package"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\nDEFINITIONS = [nothing]", r"/definitions\.py:2: NameError: name 'nothing' is not defined"),
        ("x = 1\nDEFINITIONS = [", r"/definitions\.py:2: SyntaxError: '\[' was never closed"),
        ("import no_such_module", r"/definitions\.py:1: No module named 'no_such_module'"),
        ("1 / 0", r"/definitions\.py:1: ZeroDivisionError: division by zero"),
        ("DEFINITIONS = [1]", r"DEFINITIONS of the module 'package_\d+\.definitions' must be a sequence of"),
        ("QUEUES = 7", r"QUEUES of the module 'package_\d+\.definitions' must be a sequence of Queue"),
    ],
)
def test_whatever_a_module_does_at_its_import_is_a_fault_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    package = f"package_{abs(hash(text))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "definitions.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(CatalogFault, match=sentence) as raised:
        catalog.load([package])
    assert len(raised.value.faults) == 1


def test_a_deployment_changes_what_it_names_and_nothing_else() -> None:
    changed = catalog.load(
        queues={"drill": QueueOverride(lease_seconds=3, at_once=7)},
        job_types={"synthetic": JobTypeOverride(grace_seconds=4, max_retries=0)},
    )
    definition = changed.definition("synthetic")

    assert changed.queues[definition.queue].at_once == 7
    assert changed.lease_terms(definition).duration == timedelta(seconds=3)
    assert changed.lease_terms(definition).grace == timedelta(seconds=4)
    assert changed.lease_terms(definition).timeout == GOOD.timeout
    assert changed.retry_policy(definition).max_retries == 0


def test_limits_on_leases_are_those_of_the_definition_and_of_the_deployment() -> None:
    limited = replace(GOOD, limits=Limits(at_once=3, per_second=2.5))
    override = JobTypeOverride(at_once_per_owner=1, per_second=0.5)

    assert catalog.load().lease_limits == {}
    assert GOOD.lease_limits() is None
    assert limited.lease_limits() == TypeLimits(GOOD.job_type, at_once=3, per_second=2.5)
    assert override.applied(limited).lease_limits() == TypeLimits(GOOD.job_type, 3, 1, 0.5)
    assert override.applied(limited).limits.losses == Limits().losses


def test_names_that_do_not_exist_can_not_be_changed() -> None:
    with pytest.raises(CatalogFault) as raised:
        catalog.load(queues={"dril": QueueOverride()}, job_types={"synthetics": JobTypeOverride()})

    queue, job_type = raised.value.faults
    assert "'dril', which does not exist; there are ai-background, " in queue
    assert "'synthetics', which does not exist; there are delivery_zip, document_import, " in job_type


def test_a_type_of_another_replica_is_tried_again_like_a_background_job() -> None:
    assert catalog.load().retry_policy_of(JobType("from_the_future")) == UNKNOWN_TYPE_POLICY
