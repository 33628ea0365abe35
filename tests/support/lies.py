"""What services may say that is not so."""

from __future__ import annotations

from collections.abc import Sequence

from shared.gen.baton.v1 import execution_service_pb2, job_control_pb2, job_pb2
from tests.support.lying_services import Truth

_NO_JOB = "00000000-0000-4000-8000-000000000000"


class DropsReasons(Truth):
    def details(self, method: str, details: bytes) -> bytes:
        return b""


class TakesReplaysForNew(Truth):
    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        if method != "CreateJob":
            return [message]
        response = job_control_pb2.CreateJobResponse.FromString(message)
        response.replayed = False
        return [response.SerializeToString()]


class LosesAnEvent(Truth):
    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        if method != "WatchJob":
            return [message]
        return [] if job_control_pb2.WatchJobResponse.FromString(message).event.number == 1 else [message]


class TellsEverythingTwice(Truth):
    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        return [message] * 2 if method == "WatchJob" else [message]


class NeverTellsTheEnd(Truth):
    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        if method != "WatchJob":
            return [message]
        return [] if job_control_pb2.WatchJobResponse.FromString(message).HasField("ended") else [message]


class IgnoresFilters(Truth):
    def request(self, method: str, message: bytes) -> bytes:
        if method != "ListJobs":
            return message
        request = job_control_pb2.ListJobsRequest.FromString(message)
        del request.filter.states[:]
        return request.SerializeToString()


class CancelsInWordsOnly(Truth):
    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        if method != "CancelJob":
            return [message]
        response = job_control_pb2.CancelJobResponse.FromString(message)
        response.job.state = job_pb2.JOB_STATE_QUEUED
        return [response.SerializeToString()]


class AddsCredits(Truth):
    def request(self, method: str, message: bytes) -> bytes:
        if method != "OpenSession":
            return message
        frame = execution_service_pb2.OpenSessionRequest.FromString(message)
        for each in frame.credits:
            each.count += 1
        return frame.SerializeToString()


class LiesToExecutors(Truth):
    """Lies in what a session tells."""

    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        if method != "OpenSession":
            return [message]
        frame = execution_service_pb2.OpenSessionResponse.FromString(message)
        self.lie(frame)
        return [frame.SerializeToString()]

    def lie(self, frame: execution_service_pb2.OpenSessionResponse) -> None:
        raise NotImplementedError


class AcceptsWhateverIsReported(LiesToExecutors):
    def lie(self, frame: execution_service_pb2.OpenSessionResponse) -> None:
        for each in frame.answers:
            each.outcome = execution_service_pb2.REPORT_OUTCOME_ACCEPTED


class KeepsNoLease(LiesToExecutors):
    def lie(self, frame: execution_service_pb2.OpenSessionResponse) -> None:
        if frame.HasField("welcome"):
            frame.welcome.lost.extend(frame.welcome.kept)
            frame.welcome.ClearField("kept")


class CallsEveryLeaseLost(LiesToExecutors):
    def lie(self, frame: execution_service_pb2.OpenSessionResponse) -> None:
        frame.lost.extend([execution_service_pb2.LeaseRef(job_id=_NO_JOB, token="1.any")])


class ShortensInputs(LiesToExecutors):
    def lie(self, frame: execution_service_pb2.OpenSessionResponse) -> None:
        for each in frame.leases:
            each.input = each.input[:-1]
