"""`python -m benchmarks.fuzz [--inputs 1000000] [--seed N] [--only NAME]`; exit code 1 when anything is found."""

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from itertools import count
from random import Random
from zlib import crc32

from benchmarks.fuzz.http import endpoints
from benchmarks.fuzz.mutate import changed
from benchmarks.fuzz.targets import TARGETS, Target

_SLOW_S = 5.0
_SHOWN = 5
"""Of the inputs that found something, so many of each target."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--only", default="", metavar="NAME")
    given = parser.parse_args()
    for name in ("aiohttp.server", "bot"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they tell every request that is refused
    with endpoints() as http:
        targets = [target for target in (*TARGETS, http) if given.only in target.name]
        weights = sum(target.weight for target in targets)
        total = found = 0
        for target in targets:
            inputs = round(given.inputs * target.weight / weights)
            began = time.monotonic()
            wrong = list(_wrong(target, inputs, given.seed))
            took = time.monotonic() - began
            print(f"{target.name:20} {inputs:>9,} inputs in {took:7.1f} s, {len(wrong)} found something", flush=True)
            print("".join(wrong[:_SHOWN]), end="", flush=True)
            total, found = total + inputs, found + len(wrong)
    print(f"{'total':20} {total:>9,} inputs, {found} found something")
    sys.exit(1 if found else 0)


def inputs_of(target: Target, seed: int) -> Iterator[bytes]:
    """Without end, the same for the same seed."""
    random, seeds = Random(crc32(target.name.encode()) + seed), target.seeds()
    for _ in count():
        yield changed(seeds, random, is_whole=target.is_whole)


def _wrong(target: Target, inputs: int, seed: int) -> Iterator[str]:
    for _, data in zip(range(inputs), inputs_of(target, seed), strict=False):
        began = time.monotonic()
        try:
            target.send(data)
        except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
            yield f"{data!r}\n{traceback.format_exc(limit=-3)}"
        if (took := time.monotonic() - began) > _SLOW_S:
            yield f"{data!r}\ntook {took:.1f} s\n"


if __name__ == "__main__":
    main()
