"""Where the bot lives: a pretended Slack and a pretended cluster that rolls out, and the settings that lead there."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.recorded_why import RECORDING
from bot.changes.record import KEY
from sandbox.apiserver import ApiServer, Timing
from sandbox.slack import SlackServer
from sandbox.slack.seed import Person, Room, Seed

ROOM, INCIDENTS = "C0GPUONC01", "C0GPUINC01"
DIGESTS = ("C0DIGEST01", "C0DIGEST02", "C0DIGEST03", "C0DIGEST04")
"""A channel has ten digests at most."""
ROOMS = (ROOM, INCIDENTS, *DIGESTS)
"""Where people do things."""
TOKEN = "soak"
NAMESPACE, NAME = "hami-system", "hami-scheduler"
GRACE = "U0GRACE001"
PODS = (
    "s03-card-insufficient-memory",
    "s04-node-insufficient-device",
    "s05-exclusive-cores100",
    "s06-wrong-gputype",
    "s09-node-unregistered",
    "s17-slice-exhausted",
    "s19-numa-not-fit",
    "s26-cpu-too-big",
)
"""Pods of namespace ml in the recording that wait, each for another reason."""


@dataclass(frozen=True)
class Place:
    """`settings` is the bot's file, `database` its store, `alerts` where it takes them, `log` where it writes to."""

    slack: SlackServer
    cluster: ApiServer
    settings: Path
    database: str
    alerts: str
    log: Path

    def deployment(self) -> dict[str, Any]:
        """The scheduler's, as it is now."""
        found = self.cluster.object("deployments.apps", NAMESPACE, NAME)
        assert found
        return dict(found)

    @property
    def is_changed(self) -> bool:
        """Whether a temporary change is open."""
        return KEY in self.deployment()["metadata"].get("annotations", {})


def person(number: int) -> str:
    """The id of who does the deed of that number and nothing else: so whatever comes of it can be told."""
    return f"U0SOAK{number:06}"


@asynccontextmanager
async def a_place(folder: Path, people: int, database: str = "") -> AsyncGenerator[Place]:
    """With so many people, all of whom may do everything. `database` is an empty one; a file in `folder` without it."""
    now = datetime.now(UTC)  # noqa: TID251  # it plays a cluster
    cluster = ApiServer.from_recording(RECORDING, shift_to=now, timing=Timing(renew_s=5))
    async with cluster, SlackServer(seed=seed_of(people)) as slack:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        bind = f"127.0.0.1:{_free_port()}"
        database = database or f"sqlite+aiosqlite:///{folder / 'bot.db'}"
        settings = {
            "slack": {"bot_token": slack.bot_token, "app_token": slack.app_token, "api_url": slack.api_url},
            "clusters": {"lab": {"kubeconfig": str(kubeconfig)}},
            "store": {"url": database},
            "http": {"bind": bind},
            "access": {"operators": [person(number) for number in range(people)], "changes_per_hour": 1000},
            "oncall": {
                "channel": INCIDENTS,
                "token": TOKEN,
                "pending_minutes": 0,
                "settled_minutes": 1,
                "call_minutes": 2,
                "rota": [GRACE],
            },
        }
        path = folder / "hami-bot.yaml"
        path.write_text(yaml.safe_dump(settings))
        yield Place(slack, cluster, path, database, f"http://{bind}/alerts/alertmanager", folder / "bot.log")


def seed_of(people: int) -> Seed:
    """The workspace, with so many people more."""
    usual = Seed()
    new = tuple(Person(person(number), f"soak{number:06}", f"Soak {number}") for number in range(people))
    everybody = tuple(user.id for user in (*usual.users, *new))
    names = {INCIDENTS: "gpu-incidents"} | {digest: f"digests-{number}" for number, digest in enumerate(DIGESTS)}
    rooms = tuple(replace(channel, members=everybody) for channel in usual.channels if channel.with_app)
    added = tuple(Room(channel, name, everybody) for channel, name in names.items())
    return replace(usual, users=(*usual.users, *new), channels=(*rooms, *added), messages=())


def _free_port() -> int:
    """One that was free a moment ago: every life of the bot listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
