"""Temporary changes and the audit log."""

from alembic import op
from sqlalchemy import Column, Double, Integer, String, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the tables, where an unreleased program has not made them already without noting it."""
    _add_changes()
    op.create_table(
        "audit",
        Column("seq", Integer, primary_key=True, autoincrement=False),
        Column("at", String(32), nullable=False),
        Column("actor", String(255), nullable=False),
        Column("action", String(64), nullable=False),
        Column("target", String(512), nullable=False),
        Column("outcome", String(64), nullable=False),
        Column("detail", Text, nullable=False),
        Column("previous", String(64), nullable=False),
        Column("hash", String(64), nullable=False),
        if_not_exists=True,
    )


def _add_changes() -> None:
    op.create_table(
        "changes",
        Column("id", String(64), primary_key=True),
        Column("cluster", String(255), nullable=False),
        Column("target", String(512), nullable=False),
        Column("uid", String(64), nullable=False),
        Column("state", String(32), nullable=False),
        Column("record", Text, nullable=False),
        Column("trouble", Text, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("updated_at", Double, nullable=False),
        if_not_exists=True,
    )
    op.create_index("changes_by_state", "changes", ["cluster", "state"], if_not_exists=True)
