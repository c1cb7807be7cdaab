"""Who has to agree to a change, and who did."""

from alembic import op
from sqlalchemy import Column, Double, String, Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "approvals",
        Column("id", String(64), primary_key=True),
        Column("cluster", String(255), nullable=False),
        Column("target", String(512), nullable=False),
        Column("digest", String(64), nullable=False),
        Column("requester", String(64), nullable=False),
        Column("channel", String(64), nullable=False),
        Column("request", Text, nullable=False),
        Column("state", String(16), nullable=False),
        Column("decided_by", String(64), nullable=False),
        Column("reason", Text, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("expires_at", Double, nullable=False),
        Column("decided_at", Double, nullable=False),
        if_not_exists=True,
    )
    op.create_index("approvals_by_state", "approvals", ["state", "expires_at"], if_not_exists=True)
