"""How many GPUs the pods of alerts ask for, and when alerts fired that came back."""

from alembic import op
from sqlalchemy import Column, Double, Integer, String, inspect

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Of the alerts that are there nobody knows what their pods ask for. An unreleased program may have both."""
    known = {column["name"] for column in inspect(op.get_bind()).get_columns("alerts")}
    if "gpus" not in known:
        op.add_column("alerts", Column("gpus", Integer))
        op.add_column("alerts", Column("pod_created_at", Double, nullable=False, server_default="0"))
    op.create_table(
        "outbreaks",
        Column("incident", String(32), primary_key=True),
        Column("source", String(16), primary_key=True),
        Column("fingerprint", String(64), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("status", String(16), nullable=False),
        Column("starts_at", String(32), nullable=False),
        Column("ends_at", String(32), nullable=False),
        Column("namespace", String(255), nullable=False),
        Column("pod", String(255), nullable=False),
        Column("received_at", Double, nullable=False),
        Column("heard_at", Double, nullable=False),
        Column("changed_at", Double, nullable=False),
        Column("gpus", Integer),
        Column("pod_created_at", Double, nullable=False),
        if_not_exists=True,
    )
