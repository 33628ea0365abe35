"""How the address of a database is read."""

from __future__ import annotations

import pytest

from shared.runtime.faults import StartupFault
from shared.storage.database import async_url


@pytest.mark.parametrize("broken", ["", "postgres", "postgresql://baton:hunter2@host:port/baton"])
def test_an_address_that_is_none_is_a_fault_that_tells_no_password(broken: str) -> None:
    with pytest.raises(StartupFault) as fault:
        async_url(broken)

    assert "postgresql://user:password@host:port/database" in str(fault.value)
    assert "hunter2" not in str(fault.value)


def test_loopback_is_spoken_to_in_the_clear_and_sslmode_is_understood() -> None:
    assert async_url("postgresql://baton@127.0.0.1/baton").query["ssl"] == "disable"
    assert async_url("postgresql://baton@db.example/baton?sslmode=require").query["ssl"] == "require"
