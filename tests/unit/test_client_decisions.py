"""What both clients decide alike, on times that are given."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from job_api.client import CallFailed, JobId, TimeOver, Update, asks
from job_api.client.tries import Tries
from job_api.client.watching import STREAM_SECONDS_MAX, Watch
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.scripted_control import JOB

ALIVE = pb.WatchJobResponse(keep_alive=pb.KeepAlive())


def broken(code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details="said")


def a_watch(*, within: timedelta | None = None) -> Watch[Update]:
    return Watch(asks.watch_job(JobId(UUID(JOB)), after=0, cursor=""), within, now=100.0)


def wait_after(watch: Watch[Update], now: float, error: grpc.RpcError | None = None) -> float:
    return watch.wait_after(error, now=now, uniform=0.5, is_closed=False)


def test_a_stream_lasts_no_longer_than_the_time_that_is_left() -> None:
    watch = a_watch(within=timedelta(seconds=400))

    assert watch.stream_seconds(100.0) == STREAM_SECONDS_MAX
    assert watch.stream_seconds(450.0) == 50
    assert a_watch().stream_seconds(1e9) == STREAM_SECONDS_MAX


def test_waits_between_streams_grow_until_anything_comes() -> None:
    watch = a_watch()
    assert [wait_after(watch, 100.0) for _ in range(3)] == [0.05, 0.1, 0.2]

    watch.take(ALIVE)

    assert wait_after(watch, 100.0) == 0.05


def test_patience_counts_from_the_first_break_after_the_last_message() -> None:
    watch = a_watch()
    wait_after(watch, 100.0, broken())
    wait_after(watch, 159.0, broken())
    watch.take(ALIVE)
    wait_after(watch, 170.0, broken())
    wait_after(watch, 230.0, broken())

    with pytest.raises(CallFailed, match="UNAVAILABLE: said"):
        wait_after(watch, 230.1, broken())


def test_a_watch_whose_streams_only_end_early_is_given_up_too() -> None:
    watch = a_watch()
    wait_after(watch, 100.0)

    with pytest.raises(CallFailed, match="keeps ending the watch"):
        wait_after(watch, 161.0)


def test_no_stream_is_begun_after_the_callers_time() -> None:
    watch = a_watch(within=timedelta(seconds=1))
    assert wait_after(watch, 100.9) == 0.05

    with pytest.raises(TimeOver):
        wait_after(watch, 100.9)


def test_a_closed_client_goes_on_with_nothing() -> None:
    with pytest.raises(CallFailed, match="the client is closed"):
        a_watch().wait_after(broken(), now=100.0, uniform=0.5, is_closed=True)


@pytest.mark.parametrize("code", [each for each in grpc.StatusCode if each is not grpc.StatusCode.OK])
def test_unavailable_alone_is_tried_again(code: grpc.StatusCode) -> None:
    tries = Tries(timedelta(seconds=10), now=100.0)
    if code is grpc.StatusCode.UNAVAILABLE:
        assert tries.wait_after(broken(code), now=101.0, uniform=0.5) == 0.05
        return

    with pytest.raises(CallFailed, match=code.name):
        tries.wait_after(broken(code), now=101.0, uniform=0.5)


def test_a_try_gets_the_time_that_is_left() -> None:
    assert Tries(timedelta(seconds=10), now=100.0).seconds_left(107.5) == 2.5
