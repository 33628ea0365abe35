"""Ids and secrets."""

from __future__ import annotations

import time

from shared.runtime.ids import new_id, new_secret


def test_an_id_is_a_version_7_uuid_of_the_present() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id()
    after = time.time_ns() // 1_000_000

    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert before <= made.int >> 80 <= after


def test_no_two_ids_are_the_same() -> None:
    assert len({new_id() for _ in range(10_000)}) == 10_000


def test_a_secret_is_128_bits_that_fit_into_a_url() -> None:
    secrets = {new_secret() for _ in range(1_000)}

    assert len(secrets) == 1_000
    assert {len(secret) for secret in secrets} == {22}
    assert all(secret.replace("-", "").replace("_", "").isalnum() for secret in secrets)
