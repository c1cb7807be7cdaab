"""The tables as the first release has them. Until that release a change of the tables needs nothing here."""

from alembic import op

from bot.store.tables import metadata

revision = "0100"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
