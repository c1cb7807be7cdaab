"""The store's tables; times are unix seconds. `bot.store.migrations` says when a change here needs a revision."""

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("channel", String(64), nullable=False),
    Column("key", String(255), nullable=False),
    Column("thread_ts", String(32), nullable=False),
    Column("content", Text, nullable=False),  # JSON in ASCII, so that no database minds any character
    Column("severity", Integer, nullable=False),  # 0 goes first
    Column("update_ts", String(32), nullable=False),  # the message to replace, "" to post
    Column("queued_at", Double, nullable=False),
    Column("state", String(16), nullable=False),  # new, sending, files, done, failed
    Column("version", Integer, nullable=False),  # of the content
    Column("tried_version", Integer, nullable=False),  # the last one given to Slack
    Column("sent_version", Integer, nullable=False),  # the last one known to be in Slack
    Column("owner", String(64), nullable=False),  # the process that is sending it
    Column("lease_until", Double, nullable=False),  # until when nobody else may, or with `files` nobody at all
    Column("claimed_at", Double, nullable=False),
    Column("sent_at", Double, nullable=False),  # when something was last given to Slack for this row
    Column("posted_channel", String(64), nullable=False),
    Column("posted_ts", String(32), nullable=False),
    Column("reason", Text, nullable=False),  # why it failed
    Column("asker", String(64), nullable=False, server_default=""),  # whom it answers, "" if nobody asked
    UniqueConstraint("channel", "key"),
    Index("outbox_by_turn", "channel", "state", "severity", "queued_at"),
    Index("outbox_by_time", "channel", "sent_at"),
    Index("outbox_by_state", "state"),
    Index("outbox_by_place", "posted_channel", "posted_ts"),
)

outbox_files = Table(
    "outbox_files",
    metadata,
    Column("row_id", Integer, ForeignKey("outbox.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", String(64), primary_key=True),  # of what it is and says
    Column("position", Integer, nullable=False),
    Column("about", Text, nullable=False),  # JSON in ASCII
    Column("content", LargeBinary, nullable=False),  # empty once it is done or failed
    Column("state", String(16), nullable=False),  # new, staged, sharing, done, failed
    Column("file_id", String(32), nullable=False),
    Column("reason", Text, nullable=False),
)

seen = Table(
    "seen",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("state", String(16), nullable=False),  # running, done
    Column("owner", String(32), nullable=False),  # the process that is at it, "" if none is; see bot.store.store
    Column("expires_at", Double, nullable=False),  # until when the owner is held alive; of what is done, a duplicate
    Column("payload", Text, nullable=False),  # the work itself, until it is done
    Column("deaths", Integer, nullable=False),  # how often a process died that was at this
    Column("tries", Integer, nullable=False),  # how often one died that was at nothing else
    Index("seen_by_owner", "state", "owner"),
)

facts = Table(
    "facts",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("value", Text, nullable=False),
    Column("at", Double, nullable=False),
    Index("facts_by_time", "at"),
)

threads = Table(
    "threads",
    metadata,
    Column("channel", String(64), primary_key=True),
    Column("thread_ts", String(255), primary_key=True),  # or the outbox key of the message that will be its head
    Column("words", Text, nullable=False),
    Column("cluster", String(255), nullable=False),
    Column("at", Double, nullable=False),
)

changes = Table(
    "changes",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("cluster", String(255), nullable=False),
    Column("target", String(512), nullable=False),  # namespace/name of the Deployment
    Column("uid", String(64), nullable=False),  # of the Deployment it was planned on, "" if that was not noted
    Column("state", String(32), nullable=False),  # planned, raised, effective, or how it ended
    Column("record", Text, nullable=False),  # as it stands on the object
    Column("trouble", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Index("changes_by_state", "cluster", "state"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("cluster", String(255), nullable=False),
    Column("target", String(512), nullable=False),  # namespace/name of the Deployment
    Column("digest", String(64), nullable=False),  # of exactly what is to be approved
    Column("requester", String(64), nullable=False),
    Column("channel", String(64), nullable=False),
    Column("request", Text, nullable=False),  # JSON in ASCII: what is done once it is approved
    Column("state", String(16), nullable=False),  # see bot.store.changes.State
    Column("decided_by", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("decided_at", Double, nullable=False),
    Index("approvals_by_state", "state", "expires_at"),
)

profiles = Table(
    "profiles",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("cluster", String(255), nullable=False),
    Column("target", String(1024), nullable=False),  # scheme://namespace/pod:port
    Column("kind", String(32), nullable=False),  # cpu, heap …
    Column("version", String(255), nullable=False),  # of the image, "" if it is not known
    Column("taken_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("seconds", Double, nullable=False),  # 0 for what is so at one moment
    Column("size", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),  # byte for byte as fetched
    Index("profiles_by_time", "taken_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),  # 1, 2, 3 …: a gap is a row that was removed
    Column("at", String(32), nullable=False),  # RFC 3339 in UTC
    Column("actor", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(512), nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("detail", Text, nullable=False),  # JSON in ASCII
    Column("previous", String(64), nullable=False),  # the hash of the row before
    Column("hash", String(64), nullable=False),
    Column("key_id", String(16), nullable=False),  # "" without a signature
    Column("signature", String(64), nullable=False),  # of the hash: HMAC-SHA256 in hex
)

alerts = Table(
    "alerts",
    metadata,
    Column("source", String(16), primary_key=True),
    Column("fingerprint", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # of the outbreak: only the newest may fire
    Column("status", String(16), nullable=False),  # firing, then resolved or silent
    Column("starts_at", String(32), nullable=False),  # RFC 3339 in UTC
    Column("ends_at", String(32), nullable=False),
    Column("name", String(255), nullable=False),
    Column("level", String(16), nullable=False),
    Column("cluster", String(255), nullable=False),
    Column("namespace", String(255), nullable=False),
    Column("pod", String(255), nullable=False),
    Column("node", String(255), nullable=False),
    Column("severity", String(64), nullable=False),
    Column("runbook", String(500), nullable=False),
    Column("labels", Text, nullable=False),  # JSON in ASCII
    Column("annotations", Text, nullable=False),  # JSON in ASCII
    Column("incident", String(32), nullable=False),  # "": not sorted yet; see bot.store.alerts
    Column("received_at", Double, nullable=False),
    Column("heard_at", Double, nullable=False),  # when it was last said to fire
    Column("changed_at", Double, nullable=False),  # when its status became what it is
    Column("cut", Integer, nullable=False, server_default="0"),  # more of its group that its last request left out
    Column("gpus", Integer),  # that its pod asks for, NULL: not known
    Column("pod_created_at", Double, nullable=False, server_default="0"),  # of the pod that `gpus` was read of
    Column("before_began", Double, nullable=False, server_default="0"),  # in its incident, outbreaks before this one
    Column("before_ended", Double, nullable=False, server_default="0"),
    Column("before_s", Double, nullable=False, server_default="0"),  # the seconds between those that it fired
    Index("alerts_by_incident", "incident", "status"),
    Index("alerts_by_status", "source", "status", "heard_at"),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("open_key", String(320), unique=True),  # cluster and cause, as long as these alerts belong to it
    Column("cluster", String(255), nullable=False),
    Column("cause", Text, nullable=False),  # JSON in ASCII: what was found at the first of its pods
    Column("machine", Text, nullable=False),  # JSON: state, owner …
    Column("channel", String(64), nullable=False),
    Column("thread_ts", String(32), nullable=False),  # "" until its head is known to be posted
    Column("proven", Integer, nullable=False),  # whether its evidence was given to the outbox
    Column("shown", String(64), nullable=False),  # a digest of what its head was last given to say
    Column("shown_at", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),  # 0 until it is history
    Index("incidents_by_end", "ended_at"),
    Index("incidents_by_thread", "thread_ts", "channel"),
)

incident_events = Table(
    "incident_events",
    metadata,
    Column("incident", String(32), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("turn", String(16), nullable=False),
    Column("by", String(64), nullable=False),
    Column("detail", Text, nullable=False),
    Column("told", Integer, nullable=False),  # whether its reply was given to the outbox, or it needs none
    Index("incident_events_untold", "told", "incident"),
)

pages = Table(
    "pages",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("incident", String(32), nullable=False),
    Column("service", String(16), nullable=False),  # the pager that is to be told
    Column("key", String(64), nullable=False),  # what names the page there
    Column("action", String(16), nullable=False),  # trigger, acknowledge, resolve
    Column("by", String(64), nullable=False),
    Column("state", String(16), nullable=False),  # new, done, skipped, failed
    Column("queued_at", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_try_at", Double, nullable=False),
    Column("told", Integer, nullable=False),  # whether the thread was told that it fails
    Index("pages_by_turn", "state", "service"),
    Index("pages_by_key", "key", "service"),
)

duties = Table(
    "duties",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("until", Double, nullable=False),
)

marks = Table(
    "marks",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("at", Double, nullable=False),
    Column("text", Text, nullable=False),
)

digests = Table(
    "digests",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("channel", String(64), nullable=False),
    Column("cluster", String(255), nullable=False),
    Column("schedule", String(255), nullable=False),  # JSON: cron, zone
    Column("by", String(64), nullable=False),
    Column("since", Double, nullable=False),  # nothing before that is due: when it was asked for, or its last one
    Column("stopped", Integer, nullable=False),
    Column("kind", String(16), nullable=False, server_default="digest"),  # digest, oncall
    Index("digests_by_channel", "stopped", "channel"),
)

digest_runs = Table(
    "digest_runs",
    metadata,
    Column("digest", String(32), primary_key=True),
    Column("wall", String(16), primary_key=True),  # the local date and time: one digest each, whatever the clock does
    Column("state", String(16), nullable=False),  # claimed, posted, skipped
    Column("at", Double, nullable=False),  # when it was due
    Column("owner", String(32), nullable=False),  # the process that makes it, "" if none does
    Column("claimed_until", Double, nullable=False),
    Column("figures", Text, nullable=False),  # JSON in ASCII: what the next one is compared with
)
