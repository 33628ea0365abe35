"""The demo's first part: documents go in, and what was found in them is read back over gRPC."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from job_api.command import show
from job_api.command.demo_board import Board

if TYPE_CHECKING:
    from job_api.client import Client, JobView

JOB_TYPE = "document_import"

_WATCHES_MAX = 16
"""Jobs that are followed at a time; the others wait for their turn to be shown."""
_OUTLINE_LINES_MAX = 12


@dataclass(frozen=True, slots=True)
class Imported:
    """A document whose import has ended.

    Attributes:
        fault: A sentence on why it could not be imported; empty if it was.
        refused: The service did not even take it, so there is no job.
        items: The knowledge items in the document's order, as JSON objects.
    """

    name: str
    fault: str
    items: Sequence[dict[str, Any]] = ()
    refused: bool = False


def import_all(client: Client, paths: Sequence[Path]) -> list[Imported]:
    """Import the documents side by side, show how far each is, and return them in their order."""
    board = Board()
    names = _names(paths)
    with board.shown(), ThreadPoolExecutor(max_workers=_WATCHES_MAX) as threads:
        for name in names:
            board.add(name)
        try:
            return list(
                threads.map(lambda each: _imported(client, board, *each), zip(names, paths, strict=True))
            )
        except BaseException:
            client.close()  # which ends every watch, and with it the threads
            raise


def show_imported(document: Imported) -> None:
    """Print what was found: how much, and the headings in order."""
    if document.fault:
        show.line(f"{document.name}: not imported: {document.fault}", style="red")
        return
    headings = list(outline(item["heading_path"] for item in document.items))
    title = f' "{headings[0][1]}"' if headings else ""
    characters = sum(item["characters"] for item in document.items)
    pages = {item["page"] for item in document.items if item.get("page")}
    show.line(
        f"{document.name}:{title} {len(document.items)} items, {len(headings)} headings, "
        f"{characters:,} characters" + (f", pages up to {max(pages)}" if pages else "")
    )
    for depth, heading in headings[:_OUTLINE_LINES_MAX]:
        show.line(f"    {'  ' * depth}{heading}")
    if len(headings) > _OUTLINE_LINES_MAX:
        show.line(f"    … and {len(headings) - _OUTLINE_LINES_MAX} more")


def outline(paths: Iterable[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yield each heading once, with its depth, in the order in which the items' paths name them."""
    before: Sequence[str] = ()
    for path in paths:
        shared = 0
        while shared < min(len(before), len(path)) and before[shared] == path[shared]:
            shared += 1
        yield from ((depth, path[depth]) for depth in range(shared, len(path)))
        before = path


def _imported(client: Client, board: Board, name: str, path: Path) -> Imported:
    from job_api.client import BatonError

    media_type, _ = mimetypes.guess_type(path.name)
    try:
        upload = client.upload(path, media_type=media_type or "")
        job = client.create_job(JOB_TYPE, {"upload_id": str(upload.upload_id)}, labels={"demo": "document"})
    except (BatonError, OSError) as error:
        return Imported(name, str(error), refused=True)
    for update in client.watch(job.job_id):
        board.take(name, update.what)
    ended = client.get(job.job_id)
    board.end(name, ended)
    if ended.state.name != "SUCCEEDED":
        return Imported(name, _fault(ended))
    return Imported(name, "", [each.content for each in client.artifacts(job.job_id, content=True)])


def _fault(job: JobView) -> str:
    return f"{job.error.message} ({job.error.code})" if job.error else f"the job is {job.state}"


def _names(paths: Sequence[Path]) -> list[str]:
    """Name each document by its file, and by its path where two files have one name."""
    plain = [path.name for path in paths]
    return [name if plain.count(name) == 1 else str(path) for name, path in zip(plain, paths, strict=True)]
