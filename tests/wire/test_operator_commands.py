"""The commands that operators use, on a service that answers from memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from job_api.client import AsyncClient, Client, JobId, OutboxState, WaitCause
from shared.domain.errors import PermissionDenied
from tests.support.remembering_control import Service, remembering_control
from tests.support.remembering_operators import INCARNATION
from tests.support.scripted_control import JOB

SINCE = f"{datetime.fromtimestamp(1_900_000_000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        yield running


def test_dead_messages_are_shown_with_their_numbers_and_errors(service: Service) -> None:
    result = service.run("outbox", "list", "--limit", "2")

    header, row, _ = result.stdout.splitlines()
    assert header.split() == ["number", "event", "job", "state", "tries", "time", "error"]
    assert row.split()[:5] == ["7", "job.dispatch", JOB, "dead", "3"]
    assert "WRONGTYPE: a key holds something else" in row
    assert "there are more messages than these 2" in result.stderr
    assert service.servicer.asked[0].page_size == 3


def test_messages_are_one_json_document_for_scripts(service: Service) -> None:
    result = service.run("outbox", "list", "--state", "DEAD", "--limit", "1", "--json")

    assert json.loads(result.stdout) == [
        {
            "outboxId": 7,
            "eventType": "job.dispatch",
            "aggregateType": "job",
            "aggregateId": JOB,
            "state": "dead",
            "tries": 3,
            "payload": {"queue": "drill"},
            "lastErrorCode": "WRONGTYPE",
            "lastErrorMessage": "WRONGTYPE a key holds something else",
            "availableTime": "2030-03-17T17:46:40Z",
            "deliveredTime": None,
        }
    ]


def test_a_state_that_no_message_has_is_told_without_a_call(service: Service) -> None:
    result = service.run("outbox", "list", "--state", "lost")

    assert result.exit_code == 2
    assert result.stderr == "baton: there is no state 'lost'; the states are pending, delivered, dead\n"
    assert service.servicer.asked == []


def test_messages_are_sent_again_by_their_numbers(service: Service) -> None:
    result = service.run("outbox", "resend", "7")

    assert (result.exit_code, result.stdout) == (0, "1 message is sent again\n")
    assert [list(each.outbox_ids) for each in service.servicer.asked] == [[7]]


def test_messages_that_are_not_dead_are_counted(service: Service) -> None:
    service.servicer.dead = 1
    result = service.run("outbox", "resend", "7", "8", "8", "9")

    assert (result.exit_code, result.stdout) == (0, "1 message is sent again\n")
    assert result.stderr == "baton: 2 of those that were named: not dead, or not any more\n"


def test_all_dead_messages_are_sent_again_however_many_there_are(service: Service) -> None:
    result = service.run("outbox", "resend", "--all", "--json")

    assert json.loads(result.stdout) == {"count": 3}
    assert [list(each.outbox_ids) for each in service.servicer.asked] == [[], [], []]


@pytest.mark.parametrize("arguments", [(), ("--all", "7"), ("0",), (str(2**63),)])
def test_it_must_be_said_what_to_send_again(service: Service, arguments: tuple[str, ...]) -> None:
    assert service.run("outbox", "resend", *arguments).exit_code == 2
    assert service.servicer.asked == []


def test_queues_are_a_table_for_people_and_json_for_scripts(service: Service) -> None:
    header, row = service.run("queues").stdout.splitlines()
    heads = ("queue", "group", "waiting", "running", "oldest", "/min", "executors", "credits", "paused")
    assert header.split() == [*heads]
    assert row.split()[:7] == ["drill", "1200+", "64", "1:02:05", "900", "2", "0"]
    assert row.endswith(f"synthetic by root since {SINCE}: a bad model")

    (told,) = json.loads(service.run("queues", "--json").stdout)
    assert told == {
        "queue": "drill",
        "group": "",
        "waiting": 1200,
        "moreWaiting": True,
        "running": 64,
        "oldestDueAge": "3725s",
        "startedLastMinute": None,
        "finishedLastMinute": 900,
        "executors": 2,
        "credits": 0,
        "pause": None,
        "jobTypePauses": {
            "synthetic": {"subject": "root", "pauseTime": "2030-03-17T17:46:40Z", "note": "a bad model"}
        },
    }


def test_a_queue_is_paused_with_a_note_and_resumed(service: Service) -> None:
    paused = service.run("queues", "pause", "drill", "--note", "the disk is full")
    resumed = service.run("queues", "resume", "drill")
    never = service.run("queues", "resume", "import")

    assert paused.stdout == f"the queue drill is paused by root since {SINCE}: the disk is full\n"
    assert resumed.stdout == "the queue drill was paused for 1:02:05 and goes on\n"
    assert never.stdout == "the queue import was not paused\n"
    pause, resume, _ = service.servicer.asked
    assert (pause.WhichOneof("subject"), pause.queue, pause.note) == ("queue", "drill", "the disk is full")
    assert (resume.WhichOneof("subject"), resume.queue) == ("queue", "drill")


def test_a_job_type_is_paused_and_resumed_for_scripts(service: Service) -> None:
    paused = service.run("queues", "pause", "--type", "synthetic", "--json")
    resumed = service.run("queues", "resume", "--type", "synthetic", "--json")

    assert json.loads(paused.stdout) == {"subject": "root", "pauseTime": "2030-03-17T17:46:40Z", "note": ""}
    assert json.loads(resumed.stdout) == {"pausedTime": "3725s"}
    assert [each.WhichOneof("subject") for each in service.servicer.asked] == ["job_type", "job_type"]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_it_must_be_said_what_to_pause_or_resume(service: Service, verb: str) -> None:
    for arguments in ((), ("drill", "--type", "synthetic")):
        result = service.run("queues", verb, *arguments)
        assert result.exit_code == 2
        assert result.stderr == "baton: name a queue, or a job type with --type\n"
    assert service.servicer.asked == []


async def test_both_clients_pause_and_resume(service: Service) -> None:
    with Client(service.address) as blocking:
        pause = blocking.pause(queue="drill", note="the disk is full")
        span = blocking.resume(job_type="synthetic")
        with pytest.raises(ValueError, match="name a queue or a job type"):
            blocking.pause()
    async with AsyncClient(service.address) as client:
        assert await client.pause(queue="drill", note="the disk is full") == pause
        assert await client.resume(job_type="synthetic") == span
    assert (pause.subject, pause.note) == ("root", "the disk is full")
    assert span == timedelta(hours=1, minutes=2, seconds=5)


def test_executors_are_a_table_for_people_and_json_for_scripts(service: Service) -> None:
    header, row = service.run("executors").stdout.splitlines()
    assert header.split()[:4] == ["executor", "incarnation", "runtime", "leases"]
    assert row.split()[:5] == ["executor-1", INCARNATION, "baton/0.1.0", "python/3.11", "4"]
    assert row.endswith("document_import, synthetic")

    (told,) = json.loads(service.run("executors", "--json").stdout)
    assert told == {
        "executorName": "executor-1",
        "incarnationId": INCARNATION,
        "runtime": "baton/0.1.0 python/3.11",
        "jobTypes": ["document_import", "synthetic"],
        "leases": 4,
        "credits": None,
        "lastSeenTime": "2030-03-17T17:46:40Z",
        "draining": None,
    }


def test_why_a_job_is_not_running_is_a_line_for_each_reason(service: Service) -> None:
    result = service.run("explain", JOB)

    assert result.stdout.splitlines() == [
        "queue_paused     Its queue drill was paused.",
        "limit            Its job type has a limit.",
        f"                 held by {JOB}",
        "backoff          It backs off.",
    ]
    assert [each.job_id for each in service.servicer.asked] == [JOB]
    assert service.run("explain", "nonsense").exit_code == 2


def test_reasons_are_one_json_document_for_scripts(service: Service) -> None:
    queue, limit, backoff = json.loads(service.run("explain", JOB, "--json").stdout)

    assert queue == {
        "cause": "queue_paused",
        "sentence": "Its queue drill was paused.",
        "untilTime": None,
        "pause": {
            "subject": "root",
            "pauseTime": "2030-03-17T17:46:40Z",
            "note": "the disk is full",
        },
        "holdingJobIds": [],
        "count": 0,
        "more": False,
    }
    assert (limit["cause"], limit["holdingJobIds"], limit["count"]) == ("limit", [JOB], 1)
    assert backoff["untilTime"] == "2030-03-17T17:46:40Z"


async def test_both_clients_tell_why_a_job_is_not_running(service: Service) -> None:
    with Client(service.address) as blocking:
        reasons = blocking.explain(JobId(UUID(JOB)))
    async with AsyncClient(service.address) as client:
        assert await client.explain(JobId(UUID(JOB))) == reasons
    assert [each.cause for each in reasons] == [
        WaitCause.QUEUE_PAUSED,
        WaitCause.LIMIT,
        WaitCause.BACKOFF,
    ]


def test_operators_are_told_what_they_may_not_do(service: Service) -> None:
    service.servicer.refusal = PermissionDenied("jobs.admin")
    for arguments in (
        ("explain", JOB),
        ("queues",),
        ("queues", "pause", "drill"),
        ("queues", "resume", "drill"),
        ("executors",),
        ("outbox", "list"),
        ("outbox", "resend", "7"),
        ("audit",),
    ):
        result = service.run(*arguments)
        assert result.exit_code == 6
        assert result.stderr == "baton: the scope jobs.admin is needed (PERMISSION_DENIED)\n"


def test_audit_records_are_a_table_for_people_and_json_for_scripts(service: Service) -> None:
    result = service.run("audit", "--subject", "root", "--about", JOB, "--limit", "2")

    assert [line.split() for line in result.stdout.splitlines()] == [
        ["time", "subject", "action", "what", "owner"],
        [*SINCE.split(), "root", "job.cancel", JOB, "ada"],
        [*SINCE.split(), "root", "queue.pause", "drill"],
    ]
    assert result.stderr == "baton: there are more records than these 2; --limit says how many to list\n"
    assert (service.servicer.asked[0].subject, service.servicer.asked[0].aggregate_id) == ("root", JOB)

    (told,) = json.loads(service.run("audit", "--limit", "1", "--json").stdout)
    assert (told["action"], told["owner"], told["aggregateId"]) == ("job.cancel", "ada", JOB)


def test_the_client_sends_nothing_again_that_nobody_named(service: Service) -> None:
    with Client(service.address) as client, pytest.raises(ValueError, match="None is for all"):
        client.resend_outbox_messages([])
    assert service.servicer.asked == []


async def test_the_client_for_asyncio_tells_operators_the_same(service: Service) -> None:
    with Client(service.address) as blocking:
        queues, executors = list(blocking.queues()), list(blocking.executors())
        message = next(blocking.outbox_messages(page_size=2))
    async with AsyncClient(service.address) as client:
        assert [each async for each in client.queues()] == queues
        assert [each async for each in client.executors()] == executors
        assert await anext(client.outbox_messages(page_size=2)) == message
        assert await client.resend_outbox_messages([7]) == 1
    assert (message.state, message.payload) == (OutboxState.DEAD, {"queue": "drill"})
    assert queues[0].oldest_due_age == timedelta(hours=1, minutes=2, seconds=5)
    assert (executors[0].credits, executors[0].draining) == (None, None)
