"""Passes hints on to the loops that they are for."""

from __future__ import annotations

import asyncio

from shared.streams.wake_ups import CancelsRequested, Hints, StreamsFilled


class HintRelay:
    """Sets events; whoever waits for one also looks without it, more slowly."""

    def __init__(self, hints: Hints, *, streams_filled: asyncio.Event, cancels: asyncio.Event) -> None:
        self._hints = hints
        self._streams_filled = streams_filled
        self._cancels = cancels

    async def step(self) -> bool:
        """Wait for one hint and pass it on."""
        match await anext(self._hints):
            case StreamsFilled():
                self._streams_filled.set()
            case CancelsRequested():
                self._cancels.set()
            case _:
                pass
        return True
