"""The data file of words that prove a fault."""

import pytest

from bot.hami.signatures import Hit, find, signatures
from bot.hami.version import Version
from bot.texts import Texts

IDS = [signature.id for signature in signatures()]


@pytest.mark.parametrize("one", signatures(), ids=IDS)
def test_a_signature_is_found_in_its_own_example_and_comes_first_there(one):
    for where in one.where:
        hits = find(where, one.example.splitlines())
        assert hits[0].signature.code == one.code
        assert one.id in [hit.signature.id for hit in hits]


def test_no_two_signatures_have_the_same_id():
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize(("version", "found"), [(Version(2, 7, 1), False), (Version(2, 8, 0), True), (None, True)])
def test_a_signature_is_not_looked_for_in_a_version_that_does_not_print_it(version, found):
    words = "CDI --device-list-strategy options are only supported on NVML-based systems"
    assert bool(find("plugin-log", [words], version)) == found


def test_a_monitor_that_cannot_read_the_gpus_is_known_before_hami_2_6():
    line = "E0528 02:46:15.507691  205778 metrics.go:205] nvml get memory error ret=999"  # HAMi#1089, 2.5.1
    assert [hit.signature.id for hit in find("monitor-log", [line], Version(2, 5, 1))] == ["monitor-nvml"]


@pytest.mark.parametrize("header", ["HAMI-core", "HAMi-core", "4pdvGPU"])
def test_hami_core_is_known_by_each_of_its_names(header):
    assert find("workload-log", [f"[{header} ERROR (pid:17 thread=14 libvgpu.c:874)]: cuInit failed:100"])


def test_of_a_line_that_is_repeated_the_last_one_is_quoted():
    lines = ["1 Incompatible strategy detected auto", "2 Incompatible strategy detected auto", "3 all well"]
    assert [hit.quote for hit in find("plugin-log", lines)] == [lines[1]]


@pytest.mark.parametrize("version", [None, Version(2, 4, 0), Version(2, 8, 2), Version(2, 10, 0)])
@pytest.mark.parametrize("classed", [False, True])
@pytest.mark.parametrize("say", [Texts("en"), Texts("zh")], ids=["en", "zh"])
def test_what_a_signature_says_of_a_version_is_a_whole_sentence_and_its_fix_has_no_full_stop(version, classed, say):
    for one in signatures():
        hit = Hit(one, one.example, 0, version, classed)
        means, fix = say.words(hit.means), say.words(hit.fix)
        assert not {"[[", "]]", " |", " ."} & {text[at : at + 2] for text in (means, fix) for at in range(len(text))}
        assert means[-1] in ".。)"
        assert fix[-1] not in ".。"
