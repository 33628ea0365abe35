"""`baton batch`: many jobs that are asked for, watched and judged together."""

from __future__ import annotations

import typer

from job_api.command import batch_changing, batch_creating, batch_reading, batch_watching
from job_api.command.options import EXIT_CODES

batch = typer.Typer(
    help="""Ask for many jobs of one type together, and see what becomes of them.

    \b
    A batch from its beginning to its end:
      baton batch create TYPE items.jsonl   one JSON object a line, one item
      baton batch watch ID                  until it has settled
      baton batch get ID                    how it stands, which failed, and why
      baton batch retry ID                  try the failed ones again
      baton batch select ID --all           pick what succeeded
      baton batch advance ID exported       then, and later: stored
    """,
    no_args_is_help=True,
)

batch.command("create", epilog=EXIT_CODES)(batch_creating.create)
batch.command("estimate", epilog=EXIT_CODES)(batch_creating.estimate)
batch.command("get", epilog=EXIT_CODES)(batch_reading.get_batch)
batch.command("list", epilog=EXIT_CODES)(batch_reading.list_batches)
batch.command("items", epilog=EXIT_CODES)(batch_reading.list_items)
batch.command("watch", epilog=EXIT_CODES)(batch_watching.watch)
batch.command("cancel", epilog=EXIT_CODES)(batch_changing.cancel)
batch.command("retry", epilog=EXIT_CODES)(batch_changing.retry)
batch.command("select", epilog=EXIT_CODES)(batch_changing.select)
batch.command("advance", epilog=EXIT_CODES)(batch_changing.advance)
