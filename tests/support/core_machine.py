"""The commands of a test that draws them at random; each is done by the core and told to the model.

What commands are about (jobs, entries, sessions, leases) is drawn as numbers that count back from what the
machine learned last, so that most commands meet at the same few jobs, and stale names are among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from shared.domain.errors import BatonError, IdempotencyKeyReused
from shared.domain.identity import IncarnationId, JobId, SessionId, StreamName
from shared.domain.leases import LeaseRef
from shared.streams.lease_streams import Entry
from tests.support import core_rows
from tests.support.core_commands import STREAMS, time_after, unique_by_job, wish
from tests.support.core_comparison import CoreComparison
from tests.support.core_reports import Report
from tests.support.storage import Session

Known = TypeVar("Known")

MARK = 8
"""So many entries a stream gets while nobody tells of credits."""
ROUNDS_MAX = 12
"""More rounds than any job has attempts left."""
INCARNATIONS = [IncarnationId(UUID(int=number << 64)) for number in (1, 2)]
NOBODY = Session(SessionId(UUID(int=9 << 64)), IncarnationId(UUID(int=9 << 64)))
LAST = IncarnationId(UUID(int=3 << 64))
SPANS = [timedelta(seconds=each) for each in (0.2, 0.5, 1, 4, 11, 29, 31, 46, 120)]
LOOPS = ["dispatch_and_crash", "sweep", "take_over", "pulse", "reap", "sweep_start_by"]
BACK, REPORTS = st.integers(0, 11), st.sampled_from(Report)
TIMES = st.sampled_from([1, 2, 3, 3, 4])
PAST = st.tuples(REPORTS, TIMES)
SOME = st.lists(BACK, min_size=1, max_size=4)


class CoreMachine(CoreComparison):
    """Commands about jobs, sessions and leases, current ones and stale ones."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs: list[JobId] = []
        self._entries: list[Entry] = []
        self._sessions: list[Session] = []
        self._leases: list[LeaseRef] = []

    @initialize(count=st.sampled_from([2, 4]), reports=st.lists(PAST, min_size=1, max_size=3))
    def begin_in_the_midst(self, count: int, reports: list[tuple[Report, int]]) -> None:
        """There are jobs, and some have a past."""
        self._hello(INCARNATIONS[0], [])
        self.create(count, "a", 50, None, None)
        for report, times in reports:
            self.run_some(report, times, SPANS[3], False)

    @rule(
        count=st.sampled_from([1, 1, 1, 1, 2, 2, 3, 10]),
        owner=st.sampled_from("ab"),
        priority=st.sampled_from([5, 50]),
        run_after=st.sampled_from([None, None, 0.0, 3.0, 40.0]),
        start_within=st.sampled_from([None, None, None, 0.0, 20.0]),
    )
    def create(
        self, count: int, owner: str, priority: int, run_after: float | None, start_within: float | None
    ) -> None:
        run_time, start_by = time_after(self._time.now, run_after), time_after(self._time.now, start_within)
        wishes = [
            wish(owner, priority=priority, run_time=run_time, start_by_time=start_by) for _ in range(count)
        ]
        made = [each for each in self._run(self._core.create(wishes)) if not isinstance(each, BatonError)]
        assert len(made) == count
        for each in made:
            assert not each.replayed
            stream = STREAMS[priority == 50]
            self._model.create(each.job.job_id, stream=stream, run_time=run_time, start_by=start_by)
            self._jobs.append(each.job.job_id)

    @rule(
        owner=st.sampled_from("ab"),
        key=st.sampled_from(["key-one-", "key-two-"]),
        bodies=st.lists(st.sampled_from([1, 2]), min_size=1, max_size=2),
    )
    def create_with_key(self, owner: str, key: str, bodies: list[int]) -> None:
        wishes = [wish(owner, key=key, items=each) for each in bodies]
        for body, outcome in zip(bodies, self._run(self._core.create(wishes)), strict=True):
            if isinstance(outcome, BatonError):
                assert isinstance(outcome, IdempotencyKeyReused)
                assert outcome.job_id is not None
                job_id, replayed = outcome.job_id, None
            else:
                job_id, replayed = outcome.job.job_id, outcome.replayed
            bound = self._model.keys.setdefault((owner, key), (job_id, body))
            assert (job_id, replayed is None) == (bound[0], body != bound[1])
            assert (replayed is False) == (job_id not in self._model.jobs)
            if not replayed and replayed is not None:
                self._model.create(job_id, stream=STREAMS[1], run_time=None, start_by=None)
                self._jobs.append(job_id)

    @rule(back=BACK)
    def cancel(self, back: int) -> None:
        self._cancel(_back(self._jobs, back))

    def _cancel(self, job_id: JobId) -> None:
        assert self._run(self._asked_to_cancel(job_id)) == self._model.cancel(job_id)

    async def _asked_to_cancel(self, job_id: JobId) -> str:
        try:
            await self._core.cancel(job_id)
        except BatonError as error:
            return error.reason
        return "OK"

    @rule()
    def dispatch(self) -> None:
        missing = self._missing()
        self._run(self._core.dispatch())
        everything = self._run(core_rows.read_all(self._core.transactions))
        rows = {job_id: each.dispatch for job_id, each in everything.items()}
        delivered = {job_id for job_id, row in rows.items() if row and row["state"] == "delivered"}
        self._model.dispatch(missing, delivered)
        for stream, length in self._run(self._core.lengths()).items():
            assert not self._model.waiting_due(stream) or (length or 0) >= MARK, "due work was left behind"

    @rule(loop=st.sampled_from(LOOPS))
    def run_a_loop(self, loop: str) -> None:
        getattr(self, loop)()

    def dispatch_and_crash(self) -> None:
        self._run(self._core.dispatch_and_crash())

    def sweep(self) -> None:
        missing = self._missing()
        self._run(self._core.sweep())
        self._model.sweep(missing)

    @rule(stream=st.sampled_from([None, *STREAMS]))
    def lose(self, stream: StreamName | None) -> None:
        self._run(self._core.wipe() if stream is None else self._core.lose_stream(stream))

    @rule(room=st.sampled_from([1, 3, 20]))
    def take(self, room: int) -> None:
        self._entries += self._run(self._core.take("worker", room))

    def take_over(self) -> list[LeaseRef]:
        """Claim and settle what workers took and did not settle: nothing else makes room for other work."""
        entries = self._run(self._core.take_over("other worker"))
        self._entries += entries
        leases = self._claim(self._sessions[-1], entries)
        self._run(self._core.streams.settle(entries))
        return leases

    @precondition(lambda self: self._entries)
    @rule(back=BACK, some=SOME, settled=st.booleans())
    def claim_again(self, back: int, some: list[int], settled: bool) -> None:
        """Claim entries that were taken once, whatever became of them."""
        self._claim(_back(self._sessions, back), [_back(self._entries, each) for each in some], settled)

    @rule(back=BACK, room=st.sampled_from([1, 3, 20]))
    def dispatch_take_and_claim(self, back: int, room: int) -> None:
        """The usual way, which single commands would seldom go to its end."""
        self._lease(back, room)

    def _lease(self, back: int, room: int) -> list[LeaseRef]:
        self.dispatch()
        entries = self._run(self._core.take("worker", room))
        self._entries += entries
        return self._claim(_back(self._sessions, back), entries)

    @rule(back=BACK, wait=st.sampled_from(SPANS[:3]))
    def claim_what_was_refused(self, back: int, wait: timedelta) -> None:
        """What a session that is gone was refused is for nobody until it is offered again."""
        self.dispatch()
        entries = self._run(self._core.take("worker", 2))
        self._claim(NOBODY, entries)
        self._claim(_back(self._sessions, back), entries)
        self.advance(wait)
        self._claim(_back(self._sessions, back), entries)

    @rule(report=REPORTS, times=TIMES, wait=st.sampled_from(SPANS[3:]), cancel=st.booleans())
    def run_some(self, report: Report, times: int, wait: timedelta, cancel: bool) -> None:
        """Whole attempts, so that jobs come to their later ones; then old tokens while another one runs."""
        self._hello(INCARNATIONS[0], unique_by_job(self._leases[::-1]))
        self.take_over()
        for _ in range(times):
            leases = self._lease(0, 3)
            self._report(leases, [report] * len(leases))
            self.advance(wait)
        leased_again = {each.job_id for each in self._lease(0, 3)}
        stale = [each for each in leases if each.job_id in leased_again]
        for each in stale if cancel else ():
            self._cancel(each.job_id)
        assert set(self._run(self._core.heartbeat(stale)).lost) == set(stale)
        assert self._run(self._core.see_cancels(stale)) == set()
        self._report(stale, [report] * len(stale))

    def _claim(self, session: Session, entries: Sequence[Entry], settled: bool = True) -> list[LeaseRef]:
        chosen = list({each.job_id: each for each in entries}.values())
        leases = self._run(self._core.claim([(session, each) for each in chosen], settled=settled))
        granted = [each.ref for each in leases]
        assert {each.job_id for each in granted} == self._model.claim(session, chosen)
        for ref in granted:
            self._model.granted(session, ref)
        self._leases += granted
        return granted

    @precondition(lambda self: self._leases)
    @rule(some=SOME)
    def heartbeat(self, some: list[int]) -> None:
        leases = self._some_leases(some)
        outcome = self._run(self._core.heartbeat(leases))
        assert (set(outcome.lost), set(outcome.cancels)) == self._model.heartbeat(leases)

    @precondition(lambda self: self._leases)
    @rule(some=SOME, reports=st.lists(REPORTS, min_size=4, max_size=4))
    def report(self, some: list[int], reports: list[Report]) -> None:
        self._report(self._some_leases(some), reports)

    def _report(self, leases: Sequence[LeaseRef], reports: Sequence[Report]) -> None:
        pairs = list(zip(leases, reports, strict=False))
        answers = self._run(self._core.report(pairs))
        assert answers == [self._model.report(lease, report) for lease, report in pairs]

    @precondition(lambda self: self._leases)
    @rule(some=SOME)
    def see_cancels(self, some: list[int]) -> None:
        leases = self._some_leases(some)
        assert self._run(self._core.see_cancels(leases)) == self._model.see_cancels(leases)

    @rule(incarnation_id=st.sampled_from(INCARNATIONS), some=st.lists(BACK, max_size=4))
    def say_hello(self, incarnation_id: IncarnationId, some: list[int]) -> None:
        self._hello(incarnation_id, self._some_leases(some))

    def _hello(self, incarnation_id: IncarnationId, named: Sequence[LeaseRef]) -> None:
        session, kept = self._run(self._core.hello(incarnation_id, named))
        assert set(kept) == self._model.hello(session, named)
        self._sessions.append(session)

    @rule(back=BACK)
    def say_goodbye(self, back: int) -> None:
        session = _back(self._sessions, back)
        assert self._run(self._core.goodbye(session)) == self._model.goodbye(session)

    @rule(span=st.sampled_from(SPANS), pulse=st.booleans())
    def let_time_pass(self, span: timedelta, pulse: bool) -> None:
        if pulse:
            self.advance(span)
            return
        self._run(self._time.sleep(span))
        self._model.now = self._time.now

    def advance(self, span: timedelta) -> None:
        self._run(self._time.advance(span))
        self._model.now = self._model.pulse_time = self._time.now

    def pulse(self) -> None:
        self._run(self._core.pulse())
        self._model.pulse()

    def reap(self) -> None:
        self._run(self._core.reap())
        self._model.reap()

    def sweep_start_by(self) -> None:
        self._run(self._core.sweep_start_by())
        self._model.sweep_start_by()

    def teardown(self) -> None:
        """Every job that is left comes to its end, without anything but the loops and one executor."""
        for _ in range(ROUNDS_MAX):
            if all(each.ended for each in self._model.jobs.values()):
                return
            self._finish_some()
        raise AssertionError("there are jobs that do not come to their end")

    def _finish_some(self) -> None:
        self.pulse()
        self.advance(timedelta(minutes=6))
        self.reap()
        self.sweep_start_by()
        self.sweep()
        self._hello(LAST, [])
        for _ in range(len(self._model.jobs) // MARK + 1):
            leases = self.take_over() + self._lease(0, 20)
            self._report(leases, [Report.SUCCESS] * len(leases))
        self.both_tell_the_same()

    def _some_leases(self, some: Sequence[int]) -> list[LeaseRef]:
        return unique_by_job([_back(self._leases, each) for each in some] if self._leases else [])


def _back(known: Sequence[Known], number: int) -> Known:
    """So many before the last one; from behind the first again, where there are fewer."""
    return known[-1 - number % len(known)]
