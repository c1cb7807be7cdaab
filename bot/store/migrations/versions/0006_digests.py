"""Digests: when each is wanted, and which were posted."""

from alembic import op
from sqlalchemy import Column, Double, Integer, String, Text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the tables, where an unreleased program has not made them already without noting it."""
    op.create_table(
        "digests",
        Column("id", String(32), primary_key=True),
        Column("channel", String(64), nullable=False),
        Column("cluster", String(255), nullable=False),
        Column("schedule", String(255), nullable=False),
        Column("by", String(64), nullable=False),
        Column("since", Double, nullable=False),
        Column("stopped", Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_index("digests_by_channel", "digests", ["stopped", "channel"], if_not_exists=True)
    op.create_table(
        "digest_runs",
        Column("digest", String(32), primary_key=True),
        Column("wall", String(16), primary_key=True),
        Column("state", String(16), nullable=False),
        Column("at", Double, nullable=False),
        Column("claimed_until", Double, nullable=False),
        Column("figures", Text, nullable=False),
        if_not_exists=True,
    )
