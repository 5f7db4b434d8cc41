"""Alembic's entry: runs on the connection that the caller opened, inside the caller's lock."""

from __future__ import annotations

from alembic import context

from schemas.database import SCHEMA
from schemas.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
with context.begin_transaction():
    context.run_migrations()
