"""What `fit` proposes for the recorded probe pods that a node refused, done to the recorded cluster: then it fits.

The verdicts behind it are the real scheduler's (`test_fit_verdicts`): what is tried here is the advice.
"""

import asyncio
import json
import tarfile
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from bot.hami.fit.advice import changed, smaller_requests
from bot.hami.fit.blockers import pods_to_end
from bot.hami.fit.cluster_view import ClusterFacts, View
from bot.hami.pods.pod_request import PodRequest
from bot.hami.pods.request_parsing import DeviceConfig, pod_request
from bot.hami.version import Version, parse_version
from bot.kube.models import NODES, PODS, Pod
from bot.kube.recording.recorded_cluster import RecordedCluster
from tests.cases_support import ARCHIVES

EVERY = 5
"""Whose end would help is asked for one in so many of the refusals of single nodes, and all of whole clusters."""
ALL_SUBSETS = 6

by_archive = pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))


class Recorded(NamedTuple):
    facts: ClusterFacts
    version: Version
    by_all: list[tuple[PodRequest, list[str]]]
    """Pods that every node refused, with the cluster's nodes."""
    by_one: list[tuple[PodRequest, list[str]]]
    """Pods with a single node that refused them."""

    def without(self, gone: set[str]) -> View:
        """The cluster without the pods of these uids, counted anew."""
        pods = [pod for pod in self.facts.pods or () if pod.metadata.uid not in gone]
        return View(msgspec.structs.replace(self.facts, pods=pods), self.version)


@cache
def recorded(archive: Path) -> Recorded:
    cluster = RecordedCluster.open(archive)
    version = parse_version(cluster.hami_version_hint)
    assert version
    nodes, pods = asyncio.run(cluster.list(NODES)), asyncio.run(cluster.list(PODS))
    facts = ClusterFacts({node.name: node for node in nodes}, pods, (), DeviceConfig(), cluster.now())
    with tarfile.open(archive) as files:
        probes = json.load(files.extractfile("probes.json"))  # type: ignore[arg-type]
    refused: list[tuple[PodRequest, list[str]]] = []
    singles: list[tuple[PodRequest, list[str]]] = []
    for probe in probes:
        asked = pod_request(msgspec.convert(probe["pod"], Pod), facts.config, version)
        unfit = [node for node, said in probe["verdicts"].items() if said != "fit"]
        if len(unfit) == len(probe["verdicts"]):
            refused.append((asked, sorted(facts.nodes)))
        singles += [(asked, [node]) for node in unfit]
    return Recorded(facts, version, refused, singles)


@by_archive
def test_every_smallest_change_made_fits(archive: Path) -> None:
    of = recorded(archive)
    view = of.without(set())
    proposed = 0
    for asked, names in of.by_all + of.by_one:
        for change in smaller_requests(view, names, asked):
            assert view.judge(change.node, changed(asked, change)).fits, (asked, change)
            assert not view.judge(change.node, asked).fits
            proposed += 1
    assert proposed > 100


@by_archive
def test_every_set_of_pods_ended_lets_the_pod_in_and_no_part_of_it_does(archive: Path) -> None:
    of = recorded(archive)
    view = of.without(set())
    proposed = 0
    for asked, names in of.by_all + of.by_one[::EVERY]:
        for ending in pods_to_end(view, names, asked, most=2).found:
            uids = [pod.uid for pod in ending.pods]
            assert of.without(set(uids)).judge(ending.node, asked).fits, (asked, ending)
            smaller = combinations(uids, len(uids) - 1) if len(uids) > ALL_SUBSETS else _proper_subsets(uids)
            assert not any(of.without(set(some)).judge(ending.node, asked).fits for some in smaller), (asked, ending)
            proposed += 1
    assert proposed > 10


def _proper_subsets(uids: list[str]) -> list[tuple[str, ...]]:
    return [some for size in range(len(uids)) for some in combinations(uids, size)]
