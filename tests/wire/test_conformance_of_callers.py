"""Checks of the protocol that need a service with tokens."""

from __future__ import annotations

import jwt
import pytest

from tests.support.control_service import SECRET, Control
from verification.conformance.services.check import Theme
from verification.conformance.services.checks import cancelling, listing, serving
from verification.conformance.services.running import OutOfReach, check_services, reach


def token_of(*scopes: str) -> str:
    return jwt.encode({"sub": "ada", "exp": 4_102_444_800, "scope": " ".join(scopes)}, SECRET, "HS256")


async def test_a_service_with_tokens_passes_with_one(guarded_control: Control) -> None:
    chosen = [
        Theme("chosen", (serving.callers_without_a_token_are_refused, *cancelling.THEME.checks)),
        Theme("listing", (listing.another_owners_jobs_need_a_scope,)),
    ]
    token = token_of("jobs.read", "jobs.write")
    found = check_services(guarded_control.opened.address, token=token, themes=chosen)

    assert {(each.failure, each.unjudged) async for each in found} == {("", "")}


async def test_a_service_that_lets_everyone_in_is_found_out(control: Control) -> None:
    chosen = [Theme("chosen", (serving.callers_without_a_token_are_refused,))]
    found = check_services(control.opened.address, token=token_of("jobs.read"), themes=chosen)

    assert [each.failure async for each in found] == [
        "Unmet: expected UNAUTHENTICATED, and the call was answered (no token)"
    ]


@pytest.mark.parametrize(
    ("token", "status"), [(None, "UNAUTHENTICATED"), (token_of("jobs.write"), "PERMISSION_DENIED")]
)
async def test_who_is_not_let_in_is_told_before_any_check(
    guarded_control: Control, token: str | None, status: str
) -> None:
    with pytest.raises(OutOfReach) as caught:
        await reach(guarded_control.opened.address, token=token)

    assert caught.value.status == status
    assert status in str(caught.value)
