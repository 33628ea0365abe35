"""Running services for tests of what they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.control_service import SECRET, Control, hosted


@pytest.fixture
async def control(database_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Control]:
    """JobControl that lets everyone in as `local`, with all scopes."""
    async for each in hosted(database_url, redis_url, redis_prefix):
        yield each


@pytest.fixture
async def guarded_control(database_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Control]:
    """JobControl that asks for tokens."""
    async for each in hosted(database_url, redis_url, redis_prefix, token_secret=SECRET):
        yield each
