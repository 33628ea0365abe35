"""The commands of a test that draws them at random; each is done by the core and told to the model."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    initialize,
    multiple,
    rule,
)

from job_api.operations.create_jobs import Creation
from shared.domain.errors import BatonError, IdempotencyKeyReused
from shared.domain.identity import IncarnationId, JobId, SessionId, StreamName
from shared.domain.leases import LeaseRef
from shared.streams.lease_streams import Entry
from tests.support import core_rows
from tests.support.core_commands import STREAMS, time_after, unique_by_job, wish
from tests.support.core_comparison import CoreComparison
from tests.support.core_invariants import row_of
from tests.support.core_reports import Report
from tests.support.storage import Session

MARK = 8
"""So many entries a stream gets while nobody tells of credits."""
ROUNDS_MAX = 12
"""More rounds than any job has attempts left."""
INCARNATIONS = [IncarnationId(UUID(int=number << 64)) for number in (1, 2)]
NOBODY = Session(SessionId(UUID(int=9 << 64)), IncarnationId(UUID(int=9 << 64)))
SPANS = [timedelta(seconds=each) for each in (0.2, 0.5, 1, 4, 11, 29, 31, 46, 120)]
JOBS, ENTRIES, SESSIONS, LEASES = Bundle("jobs"), Bundle("entries"), Bundle("sessions"), Bundle("leases")
SOME_ENTRIES = st.lists(ENTRIES, min_size=1, max_size=5, unique_by=lambda each: each.job_id)
SOME_LEASES = st.lists(LEASES, min_size=1, max_size=4, unique_by=lambda each: each.job_id)


class CoreMachine(CoreComparison):
    """Commands about jobs, sessions and leases, current ones and stale ones.

    To be run as a subclass that says what is under test.
    """

    @initialize(target=SESSIONS)
    def open_first_session(self) -> Session:
        return self._hello(INCARNATIONS[0], [])

    @rule(
        target=JOBS,
        count=st.sampled_from([1, 1, 1, 1, 2, 2, 3, 10]),
        owner=st.sampled_from("ab"),
        priority=st.sampled_from([5, 50]),
        run_after=st.sampled_from([None, None, 0.0, 3.0, 40.0]),
        start_within=st.sampled_from([None, None, None, 0.0, 20.0]),
    )
    def create(
        self, count: int, owner: str, priority: int, run_after: float | None, start_within: float | None
    ) -> MultipleResults[JobId]:
        run_time, start_by = time_after(self._time.now, run_after), time_after(self._time.now, start_within)
        wishes = [
            wish(owner, priority=priority, run_time=run_time, start_by_time=start_by) for _ in range(count)
        ]
        made = [each for each in self._run(self._core.create(wishes)) if isinstance(each, Creation)]
        assert len(made) == count
        for each in made:
            assert not each.replayed
            stream = STREAMS[priority == 50]
            self._model.create(each.job.job_id, stream=stream, run_time=run_time, start_by=start_by)
        return multiple(*(each.job.job_id for each in made))

    @rule(
        target=JOBS,
        owner=st.sampled_from("ab"),
        key=st.sampled_from(["key-one-", "key-two-"]),
        bodies=st.lists(st.sampled_from([1, 2]), min_size=1, max_size=2),
    )
    def create_with_key(self, owner: str, key: str, bodies: list[int]) -> MultipleResults[JobId]:
        wishes = [wish(owner, key=key, items=each) for each in bodies]
        made = set[JobId]()
        for body, outcome in zip(bodies, self._run(self._core.create(wishes)), strict=True):
            if isinstance(outcome, Creation):
                job_id, replayed = outcome.job.job_id, outcome.replayed
            else:
                assert isinstance(outcome, IdempotencyKeyReused)
                job_id, replayed = outcome.job_id, None
            bound = self._model.keys.setdefault((owner, key), (job_id, body))
            assert job_id == bound[0]
            assert (replayed is None) == (body != bound[1])
            if job_id not in self._model.jobs:
                assert replayed is False
                self._model.create(job_id, stream=STREAMS[1], run_time=None, start_by=None)
                made.add(job_id)
            else:
                assert replayed is not False
        return multiple(*made)

    @rule(job_id=JOBS)
    def cancel(self, job_id: JobId) -> None:
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
        rows = {job_id: row_of(each) for job_id, each in everything.items()}
        delivered = {job_id for job_id, row in rows.items() if row and row["state"] == "delivered"}
        self._model.dispatch(missing, delivered)
        for stream, length in self._run(self._core.lengths()).items():
            assert not self._model.waiting_due(stream) or (length or 0) >= MARK, "due work was left behind"

    @rule()
    def dispatch_and_crash(self) -> None:
        self._run(self._core.dispatch_and_crash())

    @rule()
    def sweep(self) -> None:
        missing = self._missing()
        self._run(self._core.sweep())
        self._model.sweep(missing)

    @rule()
    def wipe(self) -> None:
        self._run(self._core.wipe())

    @rule(stream=st.sampled_from(STREAMS))
    def lose_stream(self, stream: StreamName) -> None:
        self._run(self._core.lose_stream(stream))

    @rule(target=ENTRIES, room=st.sampled_from([1, 3, 20]))
    def take(self, room: int) -> MultipleResults[Entry]:
        return multiple(*self._run(self._core.take("worker", room)))

    @rule(target=ENTRIES)
    def take_over(self) -> MultipleResults[Entry]:
        return multiple(*self._run(self._core.take_over("other worker")))

    @rule(target=LEASES, session=SESSIONS, entries=SOME_ENTRIES, settled=st.booleans())
    def claim(self, session: Session, entries: list[Entry], settled: bool) -> MultipleResults[LeaseRef]:
        wishes = [(session, each) for each in entries]
        leases = self._run(self._core.claim(wishes, settled=settled))
        granted = {each.ref.job_id: each.ref for each in leases}
        assert set(granted) == self._model.claim(session, entries)
        for ref in granted.values():
            self._model.granted(session, ref)
        return multiple(*granted.values())

    @rule(target=LEASES, session=SESSIONS, wait=st.sampled_from(SPANS[:3]))
    def claim_what_was_refused(self, session: Session, wait: timedelta) -> MultipleResults[LeaseRef]:
        """What a session that is gone was refused is for nobody until it is offered again."""
        self.dispatch()
        entries = list({each.job_id: each for each in self._run(self._core.take("worker", 2))}.values())
        if not entries:
            return multiple()
        self.claim(NOBODY, entries, False)
        early = self.claim(session, entries, False).values
        self.advance(wait)
        return multiple(*early, *self.claim(session, entries, True).values)

    @rule(target=LEASES, session=SESSIONS, room=st.sampled_from([1, 20]))
    def dispatch_take_and_claim(self, session: Session, room: int) -> MultipleResults[LeaseRef]:
        """The usual way, which single commands would seldom go to its end."""
        self.dispatch()
        entries = {each.job_id: each for each in self._run(self._core.take("worker", room))}
        return self.claim(session, list(entries.values()), True) if entries else multiple()

    @rule(target=LEASES, session=SESSIONS, report=st.sampled_from(Report), wait=st.sampled_from(SPANS))
    def run_some(self, session: Session, report: Report, wait: timedelta) -> MultipleResults[LeaseRef]:
        """Whole attempts, so that jobs come to their later ones."""
        leases = list(self.dispatch_take_and_claim(session, 3).values)
        if leases:
            self.report(leases, [report] * len(leases))
        self.advance(wait)
        return multiple(*leases)

    @rule(leases=SOME_LEASES)
    def heartbeat(self, leases: list[LeaseRef]) -> None:
        outcome = self._run(self._core.heartbeat(leases))
        assert (set(outcome.lost), set(outcome.cancels)) == self._model.heartbeat(leases)

    @rule(leases=SOME_LEASES, reports=st.lists(st.sampled_from(Report), min_size=4, max_size=4))
    def report(self, leases: list[LeaseRef], reports: list[Report]) -> None:
        pairs = list(zip(leases, reports, strict=False))
        answers = self._run(self._core.report(pairs))
        assert answers == [self._model.report(lease, report) for lease, report in pairs]

    @rule(leases=SOME_LEASES)
    def see_cancels(self, leases: list[LeaseRef]) -> None:
        assert self._run(self._core.see_cancels(leases)) == self._model.see_cancels(leases)

    @rule(
        target=SESSIONS,
        incarnation_id=st.sampled_from(INCARNATIONS),
        named=st.lists(LEASES, max_size=3).map(unique_by_job),
    )
    def say_hello(self, incarnation_id: IncarnationId, named: list[LeaseRef]) -> Session:
        return self._hello(incarnation_id, named)

    def _hello(self, incarnation_id: IncarnationId, named: list[LeaseRef]) -> Session:
        session, kept = self._run(self._core.hello(incarnation_id, named))
        assert set(kept) == self._model.hello(session, named)
        return session

    @rule(session=SESSIONS)
    def say_goodbye(self, session: Session) -> None:
        assert self._run(self._core.goodbye(session)) == self._model.goodbye(session)

    @rule(span=st.sampled_from(SPANS))
    def advance(self, span: timedelta) -> None:
        self._run(self._time.advance(span))
        self._model.now = self._model.pulse_time = self._time.now

    @rule(span=st.sampled_from(SPANS))
    def sleep_without_a_pulse(self, span: timedelta) -> None:
        self._run(self._time.sleep(span))
        self._model.now = self._time.now

    @rule()
    def pulse(self) -> None:
        self._run(self._core.pulse())
        self._model.pulse()

    @rule()
    def reap(self) -> None:
        self._run(self._core.reap())
        self._model.reap()

    @rule()
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
        session = self._hello(IncarnationId(UUID(int=3 << 64)), [])
        for _ in range(len(self._model.jobs) // MARK + 1):
            leases = list(self.dispatch_take_and_claim(session, 20).values)
            if leases:
                self.heartbeat(leases)
                self.report(leases, [Report.SUCCESS] * len(leases))
        self.both_tell_the_same()
