"""On-call reports, posted by a schedule as digests are."""

from alembic import op
from sqlalchemy import Column, String, inspect

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """What there is are digests of clusters. An unreleased program may have the column."""
    if "kind" not in {column["name"] for column in inspect(op.get_bind()).get_columns("digests")}:
        op.add_column("digests", Column("kind", String(16), nullable=False, server_default="digest"))
