"""All checks of services, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from verification.conformance.services.check import Theme
from verification.conformance.services.checks import (
    cancelling,
    creating,
    errors,
    fencing,
    giving_back,
    heartbeats,
    keys,
    later,
    listing,
    output,
    reports,
    serving,
    sessions,
    stopping,
    uploading,
    watching,
)

THEMES: Sequence[Theme] = (
    serving.THEME,
    creating.THEME,
    keys.THEME,
    errors.THEME,
    listing.THEME,
    uploading.THEME,
    watching.THEME,
    cancelling.THEME,
    later.THEME,
    serving.EXECUTION_THEME,
    sessions.THEME,
    heartbeats.THEME,
    reports.THEME,
    giving_back.THEME,
    fencing.THEME,
    output.THEME,
    stopping.THEME,
)
