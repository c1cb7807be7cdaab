"""Migrations: how a database gets the tables of `bot.store.tables`, by revisions that are not edited once released.

No version is released yet: change `bot.store.tables` alone, and begin with an empty store. After the first release a
change of the tables needs `versions/NNNN_what.py`, with `down_revision` the one before, and a higher `NEWEST`; revision
0100 then has to list its tables itself. An empty database gets its tables at once, so that a first start does not wait
for Alembic (0.3 s); a test compares them with those that the revisions make.
"""

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, select, text

from bot.store.tables import metadata

FIRST = "0100"
"""The first revision; a lower one in a database means that a program of before the first release wrote it."""

NEWEST = "0100"
"""The revision that this program reads and writes; a higher one in a database means that a newer program wrote it."""

_FOLDER = Path(__file__).parent
_LOCK = 0x68616D69  # "hami": of every key that PostgreSQL's advisory locks have, the one that means this

_noted = Table(
    "alembic_version",  # as Alembic makes it
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


class OtherSchemaError(Exception):
    """The database has a schema, `found`, that this program neither reads nor upgrades."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def migrate(connection: Connection) -> None:
    """Brings the database to the newest revision in the present transaction; others wait. Raises OtherSchemaError."""
    if connection.dialect.name == "postgresql":  # in SQLite the transaction itself is the lock
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    found = revision(connection)
    if found is None:
        metadata.create_all(connection)
        _noted.create(connection)
        connection.execute(insert(_noted).values(version_num=NEWEST))
    elif found != NEWEST:
        upgrade(connection)


def upgrade(connection: Connection) -> None:
    """Runs the revisions that the database lacks, up to the newest."""
    from alembic import command  # noqa: PLC0415  # see the module's docstring
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER))
    config.set_main_option("path_separator", "os")
    command.upgrade(config, NEWEST)


def revision(connection: Connection) -> str | None:
    """The revision of the database, None if it is empty. Raises OtherSchemaError."""
    if not inspect(connection).has_table(_noted.name):
        return None
    found = connection.scalar(select(_noted.c.version_num))
    if found is not None and not FIRST <= found <= NEWEST:
        raise OtherSchemaError(found)
    return found
