"""Moments that are remembered by name: heartbeats, and since when something is wrong."""

from alembic import op
from sqlalchemy import Column, Double, String, Text

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds the table, where an unreleased program has not made it already without noting it."""
    op.create_table(
        "marks",
        Column("name", String(255), primary_key=True),
        Column("at", Double, nullable=False),
        Column("text", Text, nullable=False),
        if_not_exists=True,
    )
