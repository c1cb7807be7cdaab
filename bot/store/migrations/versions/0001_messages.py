"""What was seen, what threads are about, and the outbox."""

from alembic import op
from sqlalchemy import Column, Double, ForeignKey, Integer, LargeBinary, String, Text, UniqueConstraint

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Adds the tables."""
    _add_outbox()
    op.create_table(
        "seen",
        Column("key", String(255), primary_key=True),
        Column("state", String(16), nullable=False),
        Column("expires_at", Double, nullable=False),
        Column("payload", Text, nullable=False),
        Column("tries", Integer, nullable=False),
    )
    op.create_table(
        "threads",
        Column("channel", String(64), primary_key=True),
        Column("thread_ts", String(255), primary_key=True),
        Column("words", Text, nullable=False),
        Column("cluster", String(255), nullable=False),
        Column("at", Double, nullable=False),
    )


def _add_outbox() -> None:
    op.create_table(
        "outbox",
        Column("id", Integer, primary_key=True),
        Column("channel", String(64), nullable=False),
        Column("key", String(255), nullable=False),
        Column("thread_ts", String(32), nullable=False),
        Column("content", Text, nullable=False),
        Column("severity", Integer, nullable=False),
        Column("update_ts", String(32), nullable=False),
        Column("queued_at", Double, nullable=False),
        Column("state", String(16), nullable=False),
        Column("version", Integer, nullable=False),
        Column("tried_version", Integer, nullable=False),
        Column("sent_version", Integer, nullable=False),
        Column("owner", String(64), nullable=False),
        Column("lease_until", Double, nullable=False),
        Column("claimed_at", Double, nullable=False),
        Column("sent_at", Double, nullable=False),
        Column("posted_channel", String(64), nullable=False),
        Column("posted_ts", String(32), nullable=False),
        Column("reason", Text, nullable=False),
        UniqueConstraint("channel", "key"),
    )
    op.create_index("outbox_by_turn", "outbox", ["channel", "state", "severity", "queued_at"])
    op.create_index("outbox_by_time", "outbox", ["channel", "sent_at"])
    op.create_index("outbox_by_state", "outbox", ["state"])
    op.create_index("outbox_by_place", "outbox", ["posted_channel", "posted_ts"])
    op.create_table(
        "outbox_files",
        Column("row_id", Integer, ForeignKey("outbox.id", ondelete="CASCADE"), primary_key=True),
        Column("digest", String(64), primary_key=True),
        Column("position", Integer, nullable=False),
        Column("about", Text, nullable=False),
        Column("content", LargeBinary, nullable=False),
        Column("state", String(16), nullable=False),
        Column("file_id", String(32), nullable=False),
        Column("reason", Text, nullable=False),
    )
