"""Pages: what pagers are still to be told of incidents."""

from alembic import op
from sqlalchemy import Column, Double, Integer, String

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds the table, where an unreleased program has not made it already without noting it."""
    op.create_table(
        "pages",
        Column("id", Integer, primary_key=True),
        Column("incident", String(32), nullable=False),
        Column("service", String(16), nullable=False),
        Column("key", String(64), nullable=False),
        Column("action", String(16), nullable=False),
        Column("by", String(64), nullable=False),
        Column("state", String(16), nullable=False),
        Column("queued_at", Double, nullable=False),
        Column("tries", Integer, nullable=False),
        Column("next_try_at", Double, nullable=False),
        Column("told", Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_index("pages_by_turn", "pages", ["state", "service"], if_not_exists=True)
    op.create_index("pages_by_key", "pages", ["key", "service"], if_not_exists=True)
