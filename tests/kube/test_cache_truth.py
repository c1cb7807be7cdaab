"""Whatever happens between a server and a follower, the real ones: the mirror ends equal to a fresh list."""

import asyncio
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.apiserver import Fault
from tests.kube.cache_lab import NODES_PATH, Lab, lab, until
from tests.kube.live_servers import node

STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "remove"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["drop", "gone", "repeat"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["cut", "forget", "let it work", "wait until it is true"]), st.just(0)),
)


async def take(step: str, number: int, here: Lab) -> None:
    match step:
        case "write":
            here.server.write("nodes", node(number))
        case "remove":
            with suppress(KeyError):  # nothing to remove
                here.server.remove("nodes", "", node(number)["metadata"]["name"])
        case "cut":
            here.server.cut_connections()
        case "forget":
            here.server.forget()
        case "let it work":
            await asyncio.sleep(0)
        case "wait until it is true":
            await true(here)
        case _:
            here.server.faults.append(Fault(NODES_PATH, step, events=number, times=1, verb="watch"))


async def true(here: Lab) -> None:
    """Until what is remembered is what a fresh list says, object by object and version by version."""
    fresh = {
        fresh_node.name: fresh_node.metadata.resource_version
        for fresh_node in await here.cache.live.list(here.nodes.wanted.kind)
    }
    await until(lambda: {node.name: node.metadata.resource_version for node in here.nodes.mirror.items()} == fresh)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=25))
def test_the_mirror_ends_equal_to_a_fresh_list(tmp_path, steps):
    async def follow() -> None:
        async with lab(tmp_path) as here:
            await here.names()
            for step, number in steps:
                await take(step, number, here)
            await true(here)
            assert await here.names() == sorted(node.name for node in here.nodes.mirror.items())

    asyncio.run(follow())
