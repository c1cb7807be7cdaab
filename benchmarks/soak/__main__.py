"""`python -m benchmarks.soak [--minutes 60] [--seed N] [--database URL]`; exit code 1 when anything is wrong."""

import argparse
import asyncio
import contextlib
import random
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.soak.account import MAY_BE_LOST, Row, account, wrong
from benchmarks.soak.alerts import alertmanager
from benchmarks.soak.deeds import Book
from benchmarks.soak.ending import run_and_exit
from benchmarks.soak.faults import Faults
from benchmarks.soak.lives import Lives
from benchmarks.soak.people import People
from benchmarks.soak.place import Place, a_place
from benchmarks.soak.retries import Retries
from benchmarks.soak.store import Contents, OldestAlert, store_of
from bot.store import StoreError

_A_MINUTE = 60
"""More deeds than are done in one."""
_SETTLES_S = 600.0
_LOOKS_S = 2.0
_TELLS_S = 30.0


class Soak(NamedTuple):
    """What one run was made of."""

    place: Place
    lives: Lives
    faults: Faults
    book: Book
    retries: Retries
    oldest_alert: OldestAlert


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--database", default="", metavar="URL", help="an empty one; without it a file of SQLite")
    given = parser.parse_args()
    print(f"A soak of {given.minutes:g} minutes, --seed {given.seed}", flush=True)
    run_and_exit("soak", lambda folder: _soak(folder, given.minutes, given.seed, given.database))


async def _soak(folder: Path, minutes: float, seed: int, database: str) -> bool:
    """Whether nothing is wrong."""
    ours = asyncio.current_task()
    assert ours
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ours.cancel)  # no bot stays behind
    most = int(minutes * _A_MINUTE) + _A_MINUTE
    async with a_place(folder, most, database) as place:
        before = place.deployment()
        choices = random.Random(seed)
        # Each has choices of its own: what one does does not change the others'.
        lives = Lives(place, random.Random(choices.random()))
        faults = Faults(place, random.Random(choices.random()))
        soak = Soak(place, lives, faults, Book(most), Retries(place.slack), OldestAlert(place.database))
        try:
            async with alertmanager(place, random.Random(choices.random()), soak.book) as alerts:
                people = People(place, random.Random(choices.random()), soak.book, alerts)
                await _live(soak, people, time.monotonic() + minutes * 60)
            settled_s, left = await _settled(soak)
            exit_code = await lives.end()
            async with store_of(place.database) as reader:
                store = await reader.contents()
                failed = await reader.failed_messages()
        finally:
            await lives.kill()
        soak.retries.write(soak.book)
        rows = account(soak.book.deeds, place.slack, store)
        found = wrong(place, store, before) + [f"the message {key} was given up: {why}" for key, why in failed]
        found += [f"not settled within {_SETTLES_S:g} s: {left}"] if left else []
        found += [f"the last stop: exit code {exit_code}"] if exit_code else []
        _print(soak, rows, store, settled_s)
        return _verdict(rows, found)


async def _live(soak: Soak, people: People, until: float) -> None:
    """Everything at once until that time.monotonic(), and then what was begun to its end."""
    beside = [asyncio.create_task(work) for work in (_tell(soak, until), soak.retries.run(), soak.oldest_alert.run())]
    works = soak.lives.run(until), soak.faults.run(until), people.run(until), people.change(until)
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    finally:
        for task in beside:
            task.cancel()


async def _settled(soak: Soak) -> tuple[float, dict[str, int]]:
    """Without faults, until nothing is under way any more; how long that took, and what is left after the longest."""
    soak.faults.end()
    began = time.monotonic()
    left: dict[str, int] = {"life of the bot": 1}
    quiet = 0
    with contextlib.suppress(TimeoutError):
        await soak.lives.connected()
    while quiet < 3 and time.monotonic() - began < _SETTLES_S:
        await asyncio.sleep(_LOOKS_S)
        with contextlib.suppress(StoreError):
            async with store_of(soak.place.database) as reader:
                left = await reader.unsettled() | ({"a change": 1} if soak.place.is_changed else {})
            quiet = 0 if left else quiet + 1
    return time.monotonic() - began, left


async def _tell(soak: Soak, until: float) -> None:
    """A sign of life, and nothing that grows with time."""
    while True:
        await asyncio.sleep(_TELLS_S)
        soak.place.cluster.requests.clear()
        left = max(0.0, until - time.monotonic())
        acked = sum(deed.acked_at > 0 for deed in soak.book.deeds)
        summary = (
            f"{len(soak.book.deeds)} deeds, {acked} acked, {soak.lives.started} lives, {soak.lives.peak_mb:.0f} MB"
        )
        print(f"{left / 60:5.1f} minutes left: {summary}", flush=True)


def _print(soak: Soak, rows: list[Row], store: Contents, settled_s: float) -> None:
    lives, faults, book = soak.lives, soak.faults, soak.book
    names = ("", "sent", "acked", "once", "told", "lost", "twice", "not acked, done", "longest")
    print(f"\n{names[0]:15}" + "".join(f"{name:>{max(7, len(name) + 2)}}" for name in names[1:]))
    for row in rows:
        counts: tuple[Any, ...] = (row.sent, row.acked, row.once, row.told, len(row.lost), len(row.doubled))
        cells = (*counts, row.untaken_done, f"{row.longest_s:.1f} s" if row.longest_s else "-")
        widths = (max(7, len(name) + 2) for name in names[1:])
        print(f"{row.kind:15}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
    _list("How the bot's processes ended", lives.ends)
    _list("Faults", faults.made)
    _list("Digests that were due", store.runs)
    _list("Could not be done by anybody", book.not_possible)
    print(f"{len(store.incidents)} incidents; {lives.started} lives; at most {lives.peak_mb:.0f} MB")
    print(f"An alert waited for its incident at most {soak.oldest_alert.longest_s:.0f} s")
    print(f"Longest stop after SIGTERM {lives.longest_end_s:.1f} s; settled {settled_s:.0f} s after the last fault")


def _list(title: str, counts: Any) -> None:
    if counts:
        print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


def _verdict(rows: list[Row], found: list[str]) -> bool:
    judged = [row for row in rows if row.kind not in MAY_BE_LOST]
    found = [
        *found,
        *(f"lost: {row.kind} {name}" for row in judged for name in row.lost),
        *(f"done twice: {row.kind} {name}" for row in judged for name in row.doubled),
    ]
    for problem in found:
        print(f"WRONG: {problem}")
    acked = sum(row.acked for row in judged)
    print("FAILED" if found else f"Nothing of {acked} that were acked is lost, and nothing was done twice.")
    return not found


if __name__ == "__main__":
    main()
