"""The data file of bugs that a newer release of HAMi does not have."""

import re

import pytest

from bot.finding_codes import CODES
from bot.hami.version import Version, bug_behind, is_among, known_bugs, parse_version

by_bug = pytest.mark.parametrize("bug", known_bugs(), ids=lambda bug: bug.id)


def test_no_two_bugs_have_the_same_id():
    assert len({bug.id for bug in known_bugs()}) == len(known_bugs())


@by_bug
def test_a_bug_names_its_threads_its_codes_and_the_release_that_has_it_no_more(bug):
    fixed = parse_version(bug.fixed)
    assert fixed is not None
    assert bug.threads
    assert all(re.fullmatch(r"[\w-]+#\d+", thread) for thread in bug.threads)
    assert set(bug.codes) <= set(CODES)
    assert not is_among(fixed, bug.versions) or bug_behind(bug.codes[0], bug.words, fixed) is not bug


@by_bug
def test_a_bug_is_found_by_its_own_words_in_a_version_that_has_it(bug):
    newest = re.search(r"<=(\S+)", bug.versions)
    version = parse_version(newest[1] if newest else bug.fixed)
    found = bug_behind(bug.codes[0], [f"… {word} …" for word in bug.words] or ["anything"], version)
    assert found is not None
    assert found.codes[0] == bug.codes[0]


@pytest.mark.parametrize(
    ("version", "found"),
    [(Version(2, 7, 1), True), (Version(2, 8, 0), False), (Version(2, 10, 0), False), (None, False)],
)
def test_a_bug_is_behind_findings_of_its_versions_only(version, found):
    assert (bug_behind("scheduler-ledger-stale", ["12 GiB"], version) is not None) == found


def test_a_bug_that_says_something_is_not_behind_a_finding_that_quotes_something_else():
    assert bug_behind("scheduler-panic", ["fatal error: concurrent map writes"], Version(2, 7, 0)) is not None
    assert bug_behind("scheduler-panic", ["runtime error: index out of range"], Version(2, 7, 0)) is None


def test_nvml_that_supports_something_else_not_is_no_unified_memory():
    version = Version(2, 7, 1)
    assert bug_behind("device-plugin-crash", ["nvml init failed: Not Supported"], version) is None
    bug = bug_behind("device-plugin-crash", ["nvml get memory error ret=3"], version)
    assert bug is not None
    assert bug.id == "unified-memory"


def test_a_version_without_a_patch_stands_for_all_of_them():
    assert is_among(Version(2, 9, 3), ">=2.5 <=2.9")
    assert not is_among(Version(2, 8, 3), "<=2.8.2")
    assert is_among(Version(2, 4, 0), "all")
