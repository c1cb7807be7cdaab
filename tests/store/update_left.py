"""`python -m tests.store.update_left`: writes `tests/store/left/*.sql` anew, a store of each schema that main ever had.

Every commit that changed the tables or their revisions makes a store with its own code and fills each table; stores of
one schema are written once, by the oldest such commit. Needs the history of git, which the tests do not.
"""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
LEFT = Path(__file__).parent / "left"
_WATCHED = ("bot/store/tables.py", "bot/store/migrations")
_TWO_EIGHTHS, _SEVENTH = "7583b1d", "9e62670"
"""The first had two revisions 0008, of which a store of the second got one."""


def main() -> None:
    LEFT.mkdir(exist_ok=True)
    for old in LEFT.glob("*.sql"):
        old.unlink()
    schemas: set[tuple[str, ...]] = set()
    with TemporaryDirectory() as folder:
        commits = _git("log", "--reverse", "--format=%h", "--abbrev=7", "HEAD", "--", *_WATCHED).split()
        for commit in commits:
            code, store = Path(folder) / commit, Path(folder) / f"{commit}.db"
            code.mkdir()
            archive = subprocess.run(["git", "archive", commit, "bot"], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", code], input=archive.stdout, check=True)
            if not (code / "bot" / "store" / "migrations").is_dir():
                continue
            _fill(code, store)
            _write(store, commit, schemas)
            if commit == _TWO_EIGHTHS:
                older = Path(folder) / f"{_SEVENTH}.db"
                _fill(code, older)
                _write(older, f"{_SEVENTH}-{commit}", schemas)


def _fill(code: Path, store: Path) -> None:
    """Opens the store by the code of that folder, and fills tables in which nothing is."""
    environment = {**os.environ, "PYTHONPATH": str(code)}  # noqa: TID251  # no setting of the bot
    command = [sys.executable, str(Path(__file__).parent / "fill_left.py"), str(store)]
    subprocess.run(command, cwd=code, env=environment, check=True)


def _write(store: Path, name: str, schemas: set[tuple[str, ...]]) -> None:
    with sqlite3.connect(store) as connection:
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        schema = tuple(sorted(row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql <> ''")))
        if (revision, *schema) not in schemas:
            schemas.add((revision, *schema))
            (LEFT / f"{revision}-{name}.sql").write_text("\n".join(connection.iterdump()) + "\n")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
