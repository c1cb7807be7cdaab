"""`make test` runs a part of each long enumeration, always the same one; `make test-all` runs all of it.

Of a test of many parameters, `USUAL` cases run, or as many as `@pytest.mark.sampled(12)` says (`sampled(0)`: none). A
test that enumerates in a loop asks for the fixture `sample` and runs what that gives. A file whose tests are dear, as
they start the whole bot, says `pytestmark = pytest.mark.few(8)`: so many cases of the whole file are run; in the
folders where most files start the bot it is `FEW` unless the file says another number. What starts a process, a browser
or a database server (`pytest.mark.process`) is left to `make test-all`; what only reads the project's own files
(`pytest.mark.source`) to `make lint`, where one process parses each of them once.
Of the databases, and of the ways to Slack, each case is run on one; which it is differs from case to case. In
`make test-all` so it is in those folders, but for what is about them (`pytest.mark.each_way`): what two processes do
at once, what is there after a kill as it was acked, and what Slack delivers and is told.
Of the examples of a property, a fifth is tried, and all of them in the rest.
"""

import random
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, TypeVar

import pytest
from hypothesis import is_hypothesis_test, settings

T = TypeVar("T")
USUAL = 3
FEW = 2
_DEAR = ("tests/slack/test_", "tests/oncall/test_", "tests/deeds/test_")
_EXAMPLES = {"sample": 20, "rest": 100, "all": 100, "whole": 100, "source": 100}
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
        choices=["sample", "rest", "all", "whole", "source"],
        default="sample",
        help="of long enumerations run a sample, only what the sample leaves out, or all; `whole`: on each "
        "database and way to Slack; `source`: only what reads the project's own files (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(most): `make test` runs that many of the test's cases")
    config.addinivalue_line("markers", "process: starts a process, a browser or a database server; left to `test-all`")
    config.addinivalue_line("markers", "source: reads the project's own files and runs nothing; left to `make lint`")
    config.addinivalue_line("markers", "each_way: shows something on each database and way to Slack, so runs on all")
    config.addinivalue_line("markers", "few(most): `make test` runs that many of all cases of the file")
    if not config.getoption("--hypothesis-profile"):
        most = _EXAMPLES[_enumerations(config)]
        settings.register_profile("usual", settings.get_profile("steady"), max_examples=most)
        settings.load_profile("usual")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    which = _enumerations(config)
    if which == "whole":
        return
    checks = {item for item in items if item.get_closest_marker("source") and not item.get_closest_marker("process")}
    sampled = _sampled([item for item in items if item not in checks])
    for item in items:
        item.stash[_WHOLE] = item not in sampled
    if which == "source":
        chosen = checks
    elif which == "sample":
        chosen = sampled
    else:
        run_before = {item for item in sampled if which == "rest" and not _enumerates(item)}
        chosen = _one_way(items) - run_before - checks
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
    if which != "source":
        _mix(items)


def _mix(items: list[pytest.Item]) -> None:
    """Sorts the files so that those that mostly wait for a process run beside others, and none of them at the end."""
    waiting = {item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("process")}

    def place(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0]
        return zlib.crc32(file.encode()) // (2 if file in waiting else 1)

    items.sort(key=place)


def _enumerations(config: pytest.Config) -> str:
    return str(config.getoption("enumerations"))


def _sampled(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """What `make test` runs."""
    tests: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    most: dict[str, int] = {}
    for item in items:
        if item.get_closest_marker("process"):
            continue
        few, sampled = item.get_closest_marker("few"), item.get_closest_marker("sampled")
        dear = few is not None or item.nodeid.startswith(_DEAR)
        name = item.nodeid.split("::" if dear else "[")[0]
        marker = few if dear else sampled
        most[name] = marker.args[0] if marker else FEW if dear else USUAL
        tests[name][_case(item)].append(item)
    return {
        item
        for name, cases in tests.items()
        for case in part("sample", name, list(cases), most[name])
        for item in part("sample", case, cases[case], 1)
    }


def _one_way(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Each case on every database and way to Slack, or on one where another would show nothing more."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        about_ways = not item.nodeid.startswith(_DEAR) or item.get_closest_marker("each_way")
        cases[item.nodeid if about_ways else _case(item)].append(item)
    return {item for case, ways in cases.items() for item in part("sample", case, ways, 1)}


def _case(item: pytest.Item) -> str:
    """The test with its parameters, but for those of which one value will do."""
    test, _, case = item.nodeid.partition("[")
    for name, value in item.callspec.params.items() if isinstance(item, pytest.Function) and case else ():
        case = case.replace(str(value), "", 1) if name in _ALTERNATIVES else case
    return f"{test}[{case}"


def _enumerates(item: pytest.Item) -> bool:
    """Whether a case that `make test` has run was only a part of itself."""
    return "sample" in getattr(item, "fixturenames", ()) or is_hypothesis_test(getattr(item, "obj", None))


def part(which: str, name: str, cases: Sequence[T], most: int) -> list[T]:
    """The cases of this enumeration that are run now, in their order."""
    if which in ("all", "whole"):
        return list(cases)
    sampled = set(random.Random(f"{_SEED} {name}").sample(range(len(cases)), min(most, len(cases))))
    return [case for at, case in enumerate(cases) if (at in sampled) == (which == "sample")]


def examples(most: int) -> int:
    """For a property that needs another number than 100 of them: how many it is tried with now."""
    return most * settings().max_examples // 100


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> Sample:
    which = "whole" if request.node.stash.get(_WHOLE, False) else _enumerations(request.config)

    def chosen(cases: Sequence[T], most: int) -> list[T]:
        return part(which, request.node.nodeid, cases, most)

    return chosen
