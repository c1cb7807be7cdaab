"""Facts: what is already known of a deed or a message, so that a restart does nothing twice."""

from alembic import op
from sqlalchemy import Column, Double, String, Text

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds the table, where an unreleased program has not made it already without noting it."""
    op.create_table(
        "facts",
        Column("key", String(255), primary_key=True),
        Column("value", Text, nullable=False),
        Column("at", Double, nullable=False),
        if_not_exists=True,
    )
    op.create_index("facts_by_time", "facts", ["at"], if_not_exists=True)
