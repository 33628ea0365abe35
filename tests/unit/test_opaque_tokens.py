from __future__ import annotations

import base64
import hashlib

import pytest

from job_api.operations import opaque, paging
from job_api.operations.opaque import Unsealed
from job_api.operations.paging import PageRequest
from shared.catalog import json_text
from shared.domain.errors import InvalidPageToken

PLACE = ["jobs", {"owner": "ada"}]


def forged(place: object, value: object) -> str:
    """A token as anybody can make it who has read how: it proves nothing."""
    body = json_text.canonical(value)
    digest = hashlib.sha256(json_text.canonical(place) + b"\0" + body).digest()[:12]
    return base64.urlsafe_b64encode(digest + body).decode().rstrip("=")


@pytest.mark.parametrize("value", [0, 7, "text", ["2026-01-01", "x"], [1, 2, 3], {"a": [None]}])
def test_what_was_sealed_comes_out_again(value: object) -> None:
    assert opaque.unseal(PLACE, opaque.seal(PLACE, value)) == value


def test_every_altered_bit_is_noticed() -> None:
    raw = base64.urlsafe_b64decode(opaque.seal(PLACE, [1, 2, 3]) + "==")
    for bit in range(len(raw) * 8):
        altered = bytearray(raw)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Unsealed):
            opaque.unseal(PLACE, base64.urlsafe_b64encode(bytes(altered)).decode().rstrip("="))


def test_a_token_of_another_place_is_noticed() -> None:
    token = opaque.seal(PLACE, 7)
    for place in (["jobs", {"owner": "bob"}], ["jobs"], None, "jobs"):
        with pytest.raises(Unsealed):
            opaque.unseal(place, token)


@pytest.mark.parametrize("value", [None, "7", -1, 2**31, 1.5, True, [7], {"a": 1}])
def test_a_forged_token_with_a_place_that_can_not_be_is_refused(value: object) -> None:
    request = PageRequest(10, forged(PLACE, value))
    with pytest.raises(InvalidPageToken):
        paging.begin(request, PLACE, paging.ordinal, 0)


def test_the_last_page_has_no_token_and_a_full_one_before_it_has() -> None:
    assert paging.ended([1, 2], 2, PLACE, int).next_token == ""
    page = paging.ended([1, 2, 3], 2, PLACE, int)
    assert page.items == [1, 2]
    assert paging.begin(PageRequest(2, page.next_token), PLACE, paging.ordinal, 0) == 2
