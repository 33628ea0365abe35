"""`baton batch` as people and scripts use it, on a service that answers from memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from job_api.client import BatchCounters, BatchId, errors
from job_api.command.batch_board import PlainBatchPrinter
from shared.domain.errors import BatonError, FieldViolation
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.remembering_batches import BATCH, BROKEN, a_batch, an_item, some_counters
from tests.support.remembering_control import Service, remembering_control

AWAITING_REVIEW = batch_pb2.BATCH_STATE_AWAITING_REVIEW
PARTIALLY_FAILED = batch_pb2.BATCH_STATE_PARTIALLY_FAILED


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        yield running


def test_create_prints_the_id_and_nothing_else(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"items": 1}\n{"items": 2}\n')
    result = service.run(
        *("batch", "create", "synthetic", str(path), "--key", "night-4711", "--title", "Night"),
        *("--target", "course:7:b", "--label", "a=1", "--priority", "0"),
    )

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{BATCH}\n", "")
    expected = pb.CreateBatchRequest(
        job_type="synthetic",
        inputs=[b'{"items": 1}', b'{"items": 2}'],
        idempotency_key="night-4711",
        title="Night",
        target=job_pb2.Target(type="course", id="7:b"),
        labels={"a": "1"},
        overrides=pb.JobOverrides(priority=0),
    )
    assert service.servicer.batch_requests == [expected]


def test_create_reads_an_array_from_stdin_and_tells_scripts_all(service: Service) -> None:
    result = service.run("batch", "create", "synthetic", "-", "--json", stdin='[{"items": 1}, {}]')

    told = json.loads(result.stdout)
    assert (told["batchId"], told["state"], told["size"]) == (BATCH, "QUEUED", 3)
    assert told["counters"] == {"waiting": 3, "running": 0, "succeeded": 0, "failed": 0, "skipped": 0}
    [request] = service.servicer.batch_requests
    assert list(request.inputs) == [b'{"items": 1}', b"{}"]
    assert len(request.idempotency_key) == 32


def test_create_and_watch_ends_as_the_batch_settles(service: Service) -> None:
    service.servicer.settles(AWAITING_REVIEW, failed=0)
    whole = service.run("batch", "create", "synthetic", "-", "--watch", stdin="{}")
    service.servicer.settles(PARTIALLY_FAILED, failed=1)
    partly = service.run("batch", "create", "synthetic", "-", "--watch", stdin="{}")

    assert (whole.exit_code, partly.exit_code) == (0, 1)
    lines = whole.stdout.splitlines()
    assert lines[0] == f"{BATCH} created, 3 items"
    assert [each.split("  ")[1:] for each in lines[1:]] == [
        ["RUNNING", "2 running, 1 waiting"],
        ["AWAITING_REVIEW", "3 succeeded"],
    ]
    assert "item 2 failed  INPUT_BROKEN: [red]no image" in partly.stdout
    assert f"baton: 1 item failed: baton batch get {BATCH}, baton batch retry {BATCH}\n" == partly.stderr


def test_watch_writes_a_json_line_for_each_update(service: Service) -> None:
    service.servicer.settles(PARTIALLY_FAILED, failed=1)
    result = service.run("batch", "watch", BATCH, "--after", "1", "--json")

    first, _, failed, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (1, "")
    assert first == {
        "counters": {"waiting": 1, "running": 2, "succeeded": 0, "failed": 0, "skipped": 0},
        "cursor": "a",
    }
    assert failed["event"]["error"] == {"code": BROKEN.code, "message": BROKEN.message, "internalMessage": ""}
    assert (failed["event"]["item"], failed["event"]["itemState"]) == (2, "FAILED")
    assert (last["event"]["state"], last["event"]["itemState"], last["cursor"]) == (
        "PARTIALLY_FAILED",
        None,
        "d",
    )
    assert service.servicer.batch_requests[0] == pb.WatchBatchRequest(batch_id=BATCH, after_event_number=1)


def test_counters_are_a_line_of_their_own_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 0.4, 0.9, 1.2, 1.3])
    with PlainBatchPrinter(lambda: next(times)) as printer:
        for succeeded in range(4):
            printer.take(BatchCounters(9 - succeeded, 0, succeeded, 0, 0))

    assert capsys.readouterr().out == "2 succeeded, 7 waiting\n"


def test_get_shows_a_batch_and_its_failed_items_to_people(service: Service) -> None:
    service.servicer.settles(PARTIALLY_FAILED, failed=1)
    service.servicer.failed_items = [an_item(2, job_pb2.JOB_STATE_FAILED)]
    service.servicer.failed_items[0].job.error.CopyFrom(BROKEN)
    result = service.run("batch", "get", BATCH)

    told = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if line)
    assert (told["batch"], told["title"], told["state"]) == (BATCH, "[red]night", "PARTIALLY_FAILED")
    assert told["items"] == "2 succeeded, 1 failed"
    assert told["2"].endswith("INPUT_BROKEN: [red]no image")
    assert "\x1b" not in result.stdout


def test_get_says_where_the_rest_of_many_failed_items_is(service: Service) -> None:
    service.servicer.batch = a_batch(size=30, counters=some_counters(failed=30))
    service.servicer.failed_items = [an_item(n, job_pb2.JOB_STATE_FAILED) for n in range(1, 31)]
    result = service.run("batch", "get", BATCH)

    lines = result.stdout.splitlines()
    assert lines[-1] == f"30 items failed; baton batch items {BATCH} --state failed has all"
    assert lines[-2].startswith("20 ")
    assert len(json.loads(service.run("batch", "get", BATCH, "--json").stdout)["failedItems"]) == 30


def test_list_asks_for_what_its_options_say(service: Service) -> None:
    result = service.run(
        *("batch", "list", "--state", "awaiting-review", "--state", "FAILED", "--type", "synthetic"),
        *("--target", "course:", "--owner", "ada", "--text", "night", "--limit", "2"),
    )

    assert service.servicer.batch_requests[0] == pb.ListBatchesRequest(
        states=[AWAITING_REVIEW, batch_pb2.BATCH_STATE_FAILED],
        job_type="synthetic",
        target=job_pb2.Target(type="course"),
        owner="ada",
        text="night",
        page_size=3,
    )
    assert result.exit_code == 0
    assert result.stdout.count(BATCH) == 2
    assert result.stderr == "baton: there are more batches than these 2; --limit says how many to list\n"
    assert len(json.loads(service.run("batch", "list", "--limit", "3", "--json").stdout)) == 3


def test_items_are_listed_by_number_and_state(service: Service) -> None:
    result = service.run("batch", "items", BATCH, "--state", "succeeded")

    assert [line.split()[0] for line in result.stdout.splitlines()] == ["item", "1", "3"]
    assert list(service.servicer.batch_requests[0].states) == [job_pb2.JOB_STATE_SUCCEEDED]
    told = json.loads(service.run("batch", "items", BATCH, "--json").stdout)
    assert [(each["number"], each["job"]["batchItem"], each["attemptCount"]) for each in told] == [
        (1, 1, 1),
        (3, 3, 1),
    ]


def test_an_estimate_says_cost_and_time(service: Service) -> None:
    people = service.run("batch", "estimate", "image_render", "30")
    scripts = service.run("batch", "estimate", "image_render", "30", "--json")

    assert people.stdout == "30 items: cost 0.60, and 0:01:30 of work, one after the other\n"
    assert json.loads(scripts.stdout) == {"size": 30, "cost": "0.60", "workTime": "90s"}


def test_cancel_says_whether_items_still_run(service: Service) -> None:
    service.servicer.batch = a_batch(
        state=batch_pb2.BATCH_STATE_RUNNING, counters=some_counters(running=1, skipped=2)
    )
    running = service.run("batch", "cancel", BATCH)
    service.servicer.settles(batch_pb2.BATCH_STATE_CANCELLED, failed=0)
    over = service.run("batch", "cancel", BATCH)

    assert running.stdout == (
        f"{BATCH} skipped what waited; still running: 1 item; baton batch watch {BATCH}\n"
    )
    assert over.stdout == f"{BATCH} is CANCELLED: 3 succeeded\n"


def test_retry_is_about_all_failed_items_or_those_that_are_named(service: Service) -> None:
    everything = service.run("batch", "retry", BATCH)
    one = service.run("batch", "retry", BATCH, "--item", "4")
    two = service.run("batch", "retry", BATCH, "--item", "4", "--item", "2", "--json")

    assert everything.stdout == f"tried again: 7 items; baton batch watch {BATCH}\n"
    assert one.stdout == f"tried again: 1 item; baton batch watch {BATCH}\n"
    assert json.loads(two.stdout)["count"] == 2
    assert json.loads(two.stdout)["batch"]["batchId"] == BATCH
    assert [list(each.items) for each in service.servicer.batch_requests] == [[], [4], [4, 2]]


def test_select_picks_items_by_number_or_all_that_succeeded(service: Service) -> None:
    service.run("batch", "select", BATCH, "--item", "9")
    service.run("batch", "select", BATCH, "--all")
    neither = service.run("batch", "select", BATCH)

    selections = [
        each for each in service.servicer.batch_requests if isinstance(each, pb.SelectBatchItemsRequest)
    ]
    assert [list(each.items) for each in selections] == [[9], [1, 3]]
    assert (neither.exit_code, neither.stderr) == (
        2,
        "baton: name items by --item, or --all that succeeded\n",
    )


def test_advance_says_what_was_done_with_the_selection(service: Service) -> None:
    service.servicer.batch = a_batch(
        state=batch_pb2.BATCH_STATE_EXPORTED, counters=some_counters(succeeded=3)
    )
    result = service.run("batch", "advance", BATCH, "exported")
    wrong = service.run("batch", "advance", BATCH, "selected")

    assert result.stdout == f"{BATCH} is EXPORTED: 3 succeeded\n"
    assert service.servicer.batch_requests == [
        pb.AdvanceBatchRequest(batch_id=BATCH, state=batch_pb2.BATCH_STATE_EXPORTED)
    ]
    assert wrong.exit_code == 2
    assert wrong.stderr == "baton: a batch advances to exported or stored, not to 'selected'\n"


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (errors.BatchNotFound(BatchId(UUID(BATCH))), 3),
        (errors.BatchStateConflict(BatchId(UUID(BATCH)), "it has settled"), 4),
        (errors.PermissionDenied("jobs.write"), 6),
        (errors.InvalidInput([FieldViolation("inputs[1].items", "must be at least 1")]), 2),
    ],
)
def test_what_the_service_refuses_is_one_line_and_an_exit_code(
    service: Service, refusal: BatonError, code: int
) -> None:
    service.servicer.refusal = refusal
    lines = [
        ["create", "synthetic", "-"],
        ["estimate", "synthetic", "3"],
        *([name, BATCH] for name in ("get", "items", "watch", "cancel", "retry")),
        ["list"],
        ["select", BATCH, "--item", "1"],
        ["advance", BATCH, "stored"],
    ]
    for line in lines:
        result = service.run("batch", *line, stdin="{}")
        assert (result.exit_code, result.stdout) == (code, ""), line
        assert result.stderr == f"baton: {refusal.message} ({refusal.reason})\n"


def test_an_input_that_the_service_refuses_is_named_by_its_line(service: Service) -> None:
    service.servicer.refusal = errors.InvalidInput([FieldViolation("inputs[1].items", "must be at least 1")])
    result = service.run("batch", "create", "synthetic", "-", stdin='{}\n\n{"items": 0}\n')

    assert result.stderr == "baton: line 3, items: must be at least 1 (INVALID_INPUT)\n"


def test_what_a_person_mistypes_is_one_line(service: Service) -> None:
    for line, said in (
        (["create", "synthetic", "-", "--target", "course"], "a target is TYPE:ID, such as course:7"),
        (["create", "synthetic", "-", "--label", "night"], "a label is KEY=VALUE, not 'night'"),
        (["list", "--state", "done"], "there is no state 'done'; the states are QUEUED, RUNNING"),
        (["items", BATCH, "--state", "awaiting_review"], "there is no state 'awaiting_review'"),
    ):
        result = service.run("batch", *line, stdin="{}")
        assert result.exit_code == 2
        assert result.stderr.startswith(f"baton: {said}")
        assert result.stderr.count("\n") == 1
    assert service.servicer.batch_requests == []
