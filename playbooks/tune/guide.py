"""The tuning guide's tables, as `guide.toml` has them."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Client(NamedTuple):
    """What the API client of HAMi's scheduler may do in a cluster of `nodes` nodes or more: requests a second, and so
    many at once. `timeout_s` bounds one of them.
    """

    nodes: int
    qps: int
    burst: int
    timeout_s: int


def client_for(nodes: int) -> Client:
    """The row for a cluster of this size."""
    rows = [Client(**row) for row in _tables()["client"]]
    return max((row for row in rows if row.nodes <= nodes), key=lambda row: row.nodes)


def splits_for(smallest_mib: int) -> int:
    """Into how many shares a GPU is split whose smallest request is of so much memory."""
    rows: list[dict[str, int]] = _tables()["split"]
    return max((row for row in rows if row["smallest_mib"] <= smallest_mib), key=lambda row: row["smallest_mib"])[
        "splits"
    ]


def scheduler_memory_mib(nodes: int) -> int:
    """The memory limit of HAMi's scheduler in a cluster of this size."""
    rows: list[dict[str, int]] = _tables()["scheduler"]
    return max((row for row in rows if row["nodes"] <= nodes), key=lambda row: row["nodes"])["memory_limit_mib"]


def lock_minutes() -> tuple[int, int]:
    """The shortest and the longest --node-lock-timeout."""
    return _tables()["lock"]["least_min"], _tables()["lock"]["most_min"]


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("playbooks.tune").joinpath("guide.toml").read_text(encoding="utf-8"))
