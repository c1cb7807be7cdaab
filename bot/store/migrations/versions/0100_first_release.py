"""The tables as the first release has them. Until that release a change of the tables needs no revision here."""

from alembic import op

from bot.store.tables import metadata

revision = "0100"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
