"""One row for each alert and day of when it fired before, however often it came and went."""

from alembic import op
from sqlalchemy import Column, Double, Integer, String

revision = "0013"
down_revision = "0012"

_BEFORE = """
INSERT INTO spells
SELECT incident, source, fingerprint, day, MAX(namespace), MAX(pod), MIN(began), MAX(ended), SUM(ended - began),
    MAX(gpus)
FROM (
    SELECT incident, source, fingerprint, namespace, pod, gpus, CAST(received_at / 86400 AS INTEGER) AS day,
        received_at AS began, CASE status WHEN 'silent' THEN heard_at ELSE changed_at END AS ended
    FROM outbreaks
) AS each_one
WHERE ended > began
GROUP BY incident, source, fingerprint, day
"""


def upgrade() -> None:
    """Outbreaks of before count from when they were heard of. A database that rounds has some with the next day's.

    A replica of the program before sorts no alerts from now on until it is replaced; one of this program does.
    """
    op.create_table(
        "spells",
        Column("incident", String(32), primary_key=True),
        Column("source", String(16), primary_key=True),
        Column("fingerprint", String(64), primary_key=True),
        Column("day", Integer, primary_key=True, autoincrement=False),
        Column("namespace", String(255), nullable=False),
        Column("pod", String(255), nullable=False),
        Column("began", Double, nullable=False),
        Column("ended", Double, nullable=False),
        Column("fired_s", Double, nullable=False),
        Column("gpus", Integer),
        if_not_exists=True,
    )
    op.execute(_BEFORE)
    op.drop_table("outbreaks")
