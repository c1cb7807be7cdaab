"""Alerts that the sender cut off."""

from alembic import op
from sqlalchemy import Column, Integer, inspect

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Of the alerts that are there none is known to have been cut off. An unreleased program may have the column."""
    if "cut" not in {column["name"] for column in inspect(op.get_bind()).get_columns("alerts")}:
        op.add_column("alerts", Column("cut", Integer, nullable=False, server_default="0"))
