"""How a database becomes what `bot.store.tables` says: one revision after another, none of them ever edited again.

For a change of the tables add `versions/NNNN_what.py`, `down_revision` being the one before, and raise `NEWEST`.

An empty database is made from the tables at once, so that a first start does not wait for Alembic (0.3 s to import). A
test compares that with what the revisions make, on every database.
"""

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    column,
    func,
    insert,
    inspect,
    select,
    table,
    text,
)

from bot.store.tables import metadata

NEWEST = "0014"
"""The revision that this program reads and writes; a higher one in a database means that a newer program was there."""

_FOLDER = Path(__file__).parent
_FIRST = "0001"
_BEFORE_ALEMBIC = 1
"""What `schema_version` held; those databases are as the first revision makes them."""
_LOCK = 0x68616D69  # "hami": of every key that PostgreSQL's advisory locks have, the one that means this

_noted = Table(
    "alembic_version",  # as Alembic makes it
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
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
    if found is None and not inspect(connection).has_table(_noted_before.name):
        metadata.create_all(connection)
        _note(connection, NEWEST)
        return
    if found is None:
        _note(connection, _FIRST)
        connection.execute(text(f"DROP TABLE {_noted_before.name}"))
    upgrade(connection)


def upgrade(connection: Connection, to: str = NEWEST) -> None:
    """Runs the revisions from the one that is noted, or from the first, up to that one."""
    from alembic import command  # noqa: PLC0415  # see the module's docstring
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER))
    config.set_main_option("path_separator", "os")
    command.upgrade(config, to)


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


def _note(connection: Connection, found: str) -> None:
    _noted.create(connection)
    connection.execute(insert(_noted).values(version_num=found))
