"""`fit 1xDCU:16Gi`: other vendors' devices by their words, and manifests that ask for them."""

from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.report import Report
from playbooks.own.discovery import find
from tests.playbooks.world import Object, answer, cause, codes, commands, node, record, scheduler

DCU = {"hami.io/node-dcu-register": "DCU-0,4,65536,100,DCU-K100_AI,0,true:DCU-1,4,65536,100,DCU-K100_AI,0,true:"}


CONFIG = """
nvidia:
  resourceCountName: nvidia.com/gpu
hygon:
  resourceCountName: hygon.com/dcunum
  resourceMemoryName: hygon.com/dcumem
  resourceCoreName: hygon.com/dcucores
"""


def ask(tmp_path: Path, cards: str, **annotations: str) -> Report:
    dcus = node("dcu-1", DCU | annotations, allocatable={"hygon.com/dcunum": "8"})
    return answer("fit", record(tmp_path, [*scheduler(config=CONFIG), dcus]), {}, cards=cards)


def read(cards: str, **more: object) -> tuple[str, int, int]:
    words = find("fit").request(cards=cards, **more).words
    return words.device, words.cards, words.memory_mib


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("DCU", ("DCU", 1, 0)),
        ("2xdcu", ("DCU", 2, 0)),
        ("2 x DCU : 16Gi", ("DCU", 2, 16384)),
        ("1xDCU:1024Mi", ("DCU", 1, 1024)),
        ("2xNVIDIA:16Gi", ("", 2, 16384)),
        ("2xAscend910B3:16Gi", ("Ascend910B3", 2, 16384)),
        ("4xhygon.com/dcunum", ("hygon.com/dcunum", 4, 0)),
        ("1xBiren", ("Biren", 1, 0)),
    ],
)
def test_a_device_s_word_stands_after_the_number_and_memory_after_a_colon(
    typed: str, meant: tuple[str, int, int]
) -> None:
    assert read(typed) == meant


@pytest.mark.parametrize(
    ("typed", "more", "told"),
    [
        ("1xDCU:50%", {}, "DCU is asked for by an amount of memory"),
        ("1xBiren:8Gi", {}, "Biren is asked for by its number alone"),
        ("1xBiren", {"type": "x"}, "HAMi reads no type for Biren"),
        ("1xtrainer", {}, "trainer is no device that HAMi hands out"),
    ],
)
def test_what_a_device_cannot_be_asked_for_is_a_mistake_of_the_words(typed: str, more: Object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read(typed, **more)


@pytest.mark.parametrize("words", ["2xDCU", "2xDCU:16Gi", "1xhygon.com/dcunum"])
def test_devices_in_words_get_their_own_verdict(tmp_path: Path, words: str) -> None:
    report = ask(tmp_path, words)
    assert (codes(report), cause(report).scope.nodes) == (["fits"], ("dcu-1",))


def test_a_device_that_the_config_does_not_have_is_told_with_the_nearest(tmp_path: Path) -> None:
    report = ask(tmp_path, "1xhygon.com/dcunums")
    assert codes(report) == ["not-found"]
    assert "HAMi's device config has no hygon.com/dcunums" in cause(report).claim


def test_more_memory_than_a_device_has_is_proposed_smaller_in_the_same_words(tmp_path: Path) -> None:
    report = ask(tmp_path, "1xDCU:100Gi")
    assert [command for command in commands(report) if command.startswith("fit")] == ["fit 1xDCU:65536Mi"]


def test_a_node_that_a_restarted_scheduler_may_not_know_is_a_gap(tmp_path: Path) -> None:
    asked = "hami.io/node-handshake-dcu"
    old = ask(tmp_path / "old", "1xDCU", **{asked: "Requesting_2026-11-21 02:00:00"})
    assert any("dcu-1" in gap.why for gap in old.gaps)
    since = ask(tmp_path / "since", "1xDCU", **{asked: "Requesting_2026-11-21 03:00:00"})
    assert since.gaps == ()
