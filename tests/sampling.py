"""Long enumerations: `make test` runs a part of each, always the same one; `make test-all` then runs the rest.

A test of many parameters says `@pytest.mark.sampled(12)`: that many of its cases are run. A test that enumerates in a
loop asks for the fixture `sample` and runs what that gives. Of the databases, and of the ways to Slack, each case is
run on one.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, TypeVar

import pytest

T = TypeVar("T")
_SEED = 13
_ALTERNATIVES = ("new_database", "new_empty_database", "mode")
"""Parameters of which `make test` takes one value for each case."""
_WHOLE = pytest.StashKey[bool]()
"""On a test that `make test` does not run: the rest of its enumeration is all of it."""


class Sample(Protocol):
    def __call__(self, cases: Sequence[T], most: int) -> list[T]:
        """The cases to run now, in their order: `most` of them in `make test`."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--enumerations",
        choices=["sample", "rest", "whole"],
        default="sample",
        help="of long enumerations run a sample, only what the sample leaves out, or all (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(most): `make test` runs that many of the test's cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    which = config.getoption("enumerations")
    if which == "whole":
        return
    left_out = _left_out(items)
    for item in left_out:
        item.stash[_WHOLE] = True
    chosen = set(items) - left_out if which == "sample" else left_out | {one for one in items if _enumerates(one)}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _left_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """What `make test` does not run."""
    several: dict[str, list[pytest.Item]] = defaultdict(list)
    most: dict[str, int] = {}
    for item in items:
        if marker := item.get_closest_marker("sampled"):
            name = item.nodeid.split("[")[0]
            most[name] = marker.args[0]
        else:
            name = _case(item)
            most[name] = 1
        several[name].append(item)
    return {item for name, cases in several.items() for item in part("rest", name, cases, most[name]) if len(cases) > 1}


def _case(item: pytest.Item) -> str:
    """The test with its parameters, but for those of which one value will do."""
    spec = getattr(item, "callspec", None)
    if spec is None:
        return item.nodeid
    fixed = sorted(f"{name}={index}" for name, index in spec.indices.items() if name not in _ALTERNATIVES)
    return " ".join([item.nodeid.split("[")[0], *fixed])


def _enumerates(item: pytest.Item) -> bool:
    return "sample" in getattr(item, "fixturenames", ())


def part(which: str, name: str, cases: Sequence[T], most: int) -> list[T]:
    """The cases of this enumeration that are run now, in their order."""
    if which == "whole":
        return list(cases)
    sampled = set(random.Random(f"{_SEED} {name}").sample(range(len(cases)), min(most, len(cases))))
    return [case for at, case in enumerate(cases) if (at in sampled) == (which == "sample")]


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> Sample:
    which = "whole" if request.node.stash.get(_WHOLE, False) else request.config.getoption("enumerations")
    return lambda cases, most: part(which, request.node.nodeid, cases, most)
