"""Runs the migrations on the connection that `shared.storage.migrate` hands over."""

from __future__ import annotations

from alembic import context

from shared.storage.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
