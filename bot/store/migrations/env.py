"""Runs the revisions for Alembic, on the connection and in the transaction that `migrate` was given."""

from alembic import context

from bot.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
