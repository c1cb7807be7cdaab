"""How a database becomes what `bot.store.tables` says: one revision after another, none of them ever edited again.

For a change of the tables add `versions/NNNN_what.py`, `down_revision` being the one before, and raise `NEWEST`. A test
compares what the revisions make with the tables, on every database.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, column, func, inspect, select, table, text

NEWEST = "0002"
"""The revision that this program reads and writes; a higher one in a database means that a newer program was there."""

_FOLDER = Path(__file__).parent
_FIRST = "0001"
_BEFORE_ALEMBIC = 1
"""What `schema_version` held; those databases are as the first revision makes them."""
_LOCK = 0x68616D69  # "hami": of every key that PostgreSQL's advisory locks have, the one that means this

_noted = table("alembic_version", column("version_num"))
_noted_before = table("schema_version", column("version"))


class NewerDatabaseError(Exception):
    """A newer program was there; `found` is the schema that it left."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def migrate(connection: Connection) -> None:
    """Brings the database to the newest revision, within the transaction that the connection is in.

    Of several that do so at once one does, and the others wait. Raises NewerDatabaseError, with nothing changed.
    """
    if connection.dialect.name == "postgresql":  # in SQLite the transaction itself is the lock
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    found = revision(connection)
    if found == NEWEST:
        return
    from alembic import command  # noqa: PLC0415  # 0.2 s, for the first start and after an update only

    config = _config(connection)
    if found is None and inspect(connection).has_table(_noted_before.name):
        command.stamp(config, _FIRST)
        connection.execute(text(f"DROP TABLE {_noted_before.name}"))
    command.upgrade(config, NEWEST)


def revision(connection: Connection) -> str | None:
    """The revision of the database, None if it is empty or older than revisions. Raises NewerDatabaseError."""
    tables = inspect(connection).get_table_names()
    if _noted.name in tables:
        found = connection.scalar(select(_noted.c.version_num))
        if found is not None and found > NEWEST:
            raise NewerDatabaseError(found)
        return found
    if _noted_before.name in tables:
        found = connection.scalar(select(func.max(_noted_before.c.version)))
        if found is not None and found > _BEFORE_ALEMBIC:
            raise NewerDatabaseError(str(found))
    return None


def _config(connection: Connection) -> Any:
    from alembic.config import Config  # noqa: PLC0415  # as above

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER))
    config.set_main_option("path_separator", "os")
    return config
