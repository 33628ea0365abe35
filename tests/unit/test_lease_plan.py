"""Which session may take which entries: in order of urgency, in turn, never above its credits."""

from __future__ import annotations

from collections import Counter

from job_worker.sessions.lease_plan import reserve, wanted_streams
from shared.domain.identity import StreamName
from tests.support.worker_sessions import DRILL, a_session

URGENT, NORMAL = (StreamName(f"drill:synthetic:1.1:{band}") for band in (0, 2))


def test_the_most_urgent_streams_come_first_and_only_where_there_is_a_credit() -> None:
    hungry, full = a_session(credits=1), a_session()

    streams = wanted_streams([full, hungry])

    assert [each.name for each in streams] == [f"drill:synthetic:1.1:{band}" for band in range(4)]
    assert all(list(each.sessions) == [hungry] for each in streams)


def test_no_session_gets_more_seats_than_credits_over_all_streams() -> None:
    first, second = a_session(credits=3), a_session(credits=1)

    seats = reserve(wanted_streams([first, second]), {URGENT: 2, NORMAL: 100})

    taken = Counter(seat.session.claimant.session_id for each in seats.values() for seat in each)
    assert (len(seats[URGENT]), len(seats[NORMAL])) == (2, 2)
    assert taken == {first.claimant.session_id: 3, second.claimant.session_id: 1}
    assert first.open_credits(DRILL) == second.open_credits(DRILL) == 0


def test_sessions_take_turns() -> None:
    sessions = [a_session(credits=5) for _ in range(3)]

    seats = reserve(wanted_streams(sessions), {NORMAL: 6})

    assert [each.session for each in seats[NORMAL]] == sessions * 2


def test_a_seat_that_is_given_up_is_a_credit_again() -> None:
    session = a_session(credits=1)
    seats = reserve(wanted_streams([session]), {NORMAL: 1})
    assert session.open_credits(DRILL) == 0

    seats[NORMAL].popleft().give_up()

    assert session.open_credits(DRILL) == 1


def test_streams_without_entries_get_no_seats() -> None:
    assert reserve(wanted_streams([a_session(credits=1)]), {URGENT: 0}) == {}


def test_job_types_that_the_service_does_not_know_have_no_streams() -> None:
    assert a_session(credits=1, job_types=["not_yet"]).streams == []
