"""Alerts, incidents with what happened to them, and which replica looks after them."""

from alembic import op
from sqlalchemy import Column, Double, Integer, String, Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the tables, where an unreleased program has not made them already without noting it."""
    _add_alerts()
    op.create_table(
        "incidents",
        Column("id", String(32), primary_key=True),
        Column("open_key", String(320), unique=True),
        Column("cluster", String(255), nullable=False),
        Column("cause", Text, nullable=False),
        Column("machine", Text, nullable=False),
        Column("channel", String(64), nullable=False),
        Column("thread_ts", String(32), nullable=False),
        Column("proven", Integer, nullable=False),
        Column("shown", String(64), nullable=False),
        Column("shown_at", Double, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("ended_at", Double, nullable=False),
        if_not_exists=True,
    )
    op.create_index("incidents_by_end", "incidents", ["ended_at"], if_not_exists=True)
    op.create_index("incidents_by_thread", "incidents", ["thread_ts", "channel"], if_not_exists=True)
    op.create_table(
        "incident_events",
        Column("incident", String(32), primary_key=True),
        Column("seq", Integer, primary_key=True, autoincrement=False),
        Column("at", Double, nullable=False),
        Column("turn", String(16), nullable=False),
        Column("by", String(64), nullable=False),
        Column("detail", Text, nullable=False),
        Column("told", Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_index("incident_events_untold", "incident_events", ["told", "incident"], if_not_exists=True)
    op.create_table(
        "duties",
        Column("name", String(64), primary_key=True),
        Column("owner", String(255), nullable=False),
        Column("until", Double, nullable=False),
        if_not_exists=True,
    )


def _add_alerts() -> None:
    op.create_table(
        "alerts",
        Column("source", String(16), primary_key=True),
        Column("fingerprint", String(64), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("status", String(16), nullable=False),
        Column("starts_at", String(32), nullable=False),
        Column("ends_at", String(32), nullable=False),
        Column("name", String(255), nullable=False),
        Column("level", String(16), nullable=False),
        Column("cluster", String(255), nullable=False),
        Column("namespace", String(255), nullable=False),
        Column("pod", String(255), nullable=False),
        Column("node", String(255), nullable=False),
        Column("severity", String(64), nullable=False),
        Column("runbook", String(500), nullable=False),
        Column("labels", Text, nullable=False),
        Column("annotations", Text, nullable=False),
        Column("incident", String(32), nullable=False),
        Column("received_at", Double, nullable=False),
        Column("heard_at", Double, nullable=False),
        Column("changed_at", Double, nullable=False),
        if_not_exists=True,
    )
    op.create_index("alerts_by_incident", "alerts", ["incident", "status"], if_not_exists=True)
    op.create_index("alerts_by_status", "alerts", ["source", "status", "heard_at"], if_not_exists=True)
