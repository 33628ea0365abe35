"""Tells whether a file was changed since it was last read."""

from __future__ import annotations

from pathlib import Path

Version = tuple[int, int, int]


def version(path: Path) -> Version | None:
    """Say which version of itself a file is, as far as its inode, size and time tell; None if it is away.

    Files that are put in place by a rename, and mounted secrets, whose links are, have a new inode each time.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
