"""The tuning guide's tables, as `guide.toml` has them."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple


class Client(NamedTuple):
    """What the API client of HAMi's scheduler may do in a cluster of `nodes` nodes or more: requests a second, and so
    many at once. `timeout_s` bounds one of them.
    """

    nodes: int
    qps: int
    burst: int
    timeout_s: int


class Resources(NamedTuple):
    """Requests and limits of HAMi's scheduler in a cluster of `nodes` nodes or more; CPU in thousandths."""

    nodes: int
    cpu_request: int
    cpu_limit: int
    memory_request_mib: int
    memory_limit_mib: int


Symptom = Literal[
    "slow-scheduling",
    "node-locked",
    "low-utilisation",
    "gpu-oom",
    "scheduler-oom",
    "no-monitor-data",
    "slow-cuda",
    "loose-cores",
]


class Scenario(NamedTuple):
    """A symptom of the guide's table, and what it recommends. It is seen where advice on `topic` has one of these
    `directions`.
    """

    symptom: Symptom
    parameter: str
    value: str
    topic: str
    directions: tuple[str, ...]


class Setting(NamedTuple):
    """A value of a template. `path` is the chart's; after a blank, a word of the list that is there.

    `read` tells where the deployed value stands: `flag NAME`, `config KEY` or `replicas`.
    """

    path: str
    value: str | int | bool
    read: str
    default: str
    topic: str = ""
    since: str = ""


TEMPLATES = ("development", "production")


def scenarios() -> list[Scenario]:
    """The table of symptoms, in the guide's order."""
    rows: list[dict[str, Any]] = _tables()["scenario"]
    return [Scenario(**row)._replace(directions=tuple(row["directions"])) for row in rows]


def template(name: str) -> list[Setting]:
    """The values of one of `TEMPLATES`."""
    return [Setting(**row) for row in _tables()["template"][name]]


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


def resources_for(nodes: int) -> Resources:
    """What HAMi's scheduler is given in a cluster of this size."""
    rows = [Resources(**row) for row in _tables()["scheduler"]]
    return max((row for row in rows if row.nodes <= nodes), key=lambda row: row.nodes)


def lock_minutes() -> tuple[int, int]:
    """The shortest and the longest --node-lock-timeout."""
    return _tables()["lock"]["least_min"], _tables()["lock"]["most_min"]


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("playbooks.tune").joinpath("guide.toml").read_text(encoding="utf-8"))
