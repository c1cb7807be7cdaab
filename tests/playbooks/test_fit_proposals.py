"""What `fit` proposes on the recorded clusters for cards in words, asked for as it is proposed: then it fits.

That the changes themselves fit, for the recorded probe pods, is `test_fit_advice`'s.
"""

import asyncio
import random
import shlex
from typing import Any

import pytest
from msgspec import structs

from bot.kube.models import Pod
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.texts import Texts
from handlers.parsing.slack_grammar import understand
from playbooks.fit.playbook import asked_of
from playbooks.playbook import Sources, find
from tests.cases_support import CASES, VERSIONS, ask_cluster
from tests.playbooks.tables import table
from tests.playbooks.world import cause, commands

ASKED = 16
"""Requests per recording, the same in every run."""
COUNTS = (1, 1, 1, 2, 4, 8, 9, 14, 16)
AMOUNTS = ("8Gi", "12Gi", "15Gi", "16Gi", "31Gi", "40Gi", "79Gi", "80Gi", "100Gi", "50%", "100%")
TYPES = ("", "", "T4", "V100", "a100,t4")
CORES = (None, None, 10, 60, 100)
NAMESPACES = ("ml", "quota-ns")
SURE: list[dict[str, Any]] = [
    {"cards": "2x100%", "cores": 100, "type": "V100", "namespace": "quota-ns"},
    {"cards": "4", "type": "T4", "namespace": "ml"},
    {"cards": "1x9000Mi", "namespace": "quota-ns"},
]
"""In every recording something is proposed for some of them."""


def some_requests(version: str) -> list[dict[str, Any]]:
    chance = random.Random(version)
    return SURE + [
        {
            "cards": f"{chance.choice(COUNTS)}x{chance.choice(AMOUNTS)}",
            "type": chance.choice(TYPES),
            "cores": chance.choice(CORES),
            "namespace": chance.choice(NAMESPACES),
        }
        for _ in range(ASKED)
    ]


def opened(version: str) -> RecordedCluster:
    return RecordedCluster.open(CASES / version / "recording.tar.gz")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_request_that_is_proposed_fits_as_it_is_proposed(version: str) -> None:
    cluster, proposed = opened(version), 0
    for asked in some_requests(version):
        for command in commands(ask_cluster(cluster, verb="fit", **asked)):
            if not command.startswith("fit "):
                continue
            words = shlex.split(command)
            again = understand(words).request
            values = {"cores": again.words.cores, "type": again.words.type, "namespace": again.namespace}
            answer = ask_cluster(cluster, verb="fit", cards=words[1], **values)
            assert cause(answer).code == "fits", (asked, command, answer.verdict)
            proposed += 1
    assert proposed >= 8


def without(seen: Any, left: list[Pod]) -> Any:
    """The same question where only those pods are left."""
    capacity = seen.world.capacity._replace(pods=left, kept=None)
    world = structs.replace(seen.world, capacity=capacity)
    return seen._replace(world=world, asked=asked_of(seen.request, world))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_set_of_pods_that_would_have_to_end_lets_the_request_in_once_they_are_gone(version: str) -> None:
    cluster, fit, say, proposed = opened(version), find("fit"), Texts("en"), 0
    for asked in some_requests(version):
        seen: Any = asyncio.run(fit.gather(fit.request(**asked), Sources(cluster)))
        report = fit.report(seen, say)
        named = any(table.title == "pods to end" for table in report.tables)
        for row in table(report, "pods to end") if named else ():
            gone = row["pods to end"].split(", ")
            left = [pod for pod in seen.world.capacity.pods if f"{pod.namespace}/{pod.name}" not in gone]
            after = fit.report(without(seen, left), say)
            assert (cause(after).code, row["node"] in cause(after).scope.nodes) == ("fits", True), (asked, row)
            proposed += 1
    assert proposed >= 3
