"""Kept profiles."""

from alembic import op
from sqlalchemy import Column, Double, Integer, LargeBinary, String

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "profiles",
        Column("id", String(64), primary_key=True),
        Column("cluster", String(255), nullable=False),
        Column("target", String(1024), nullable=False),
        Column("kind", String(32), nullable=False),
        Column("version", String(255), nullable=False),
        Column("taken_at", Double, nullable=False),
        Column("expires_at", Double, nullable=False),
        Column("seconds", Double, nullable=False),
        Column("size", Integer, nullable=False),
        Column("content", LargeBinary, nullable=False),
        if_not_exists=True,
    )
    op.create_index("profiles_by_time", "profiles", ["taken_at"], if_not_exists=True)
