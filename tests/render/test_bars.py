"""The cards of `gpus` as bars of text, as a terminal shows them."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bot.render.overview import MOST_LINES, bars, gpus_by_node
from bot.render.terminal import terminal
from bot.report import Report, Sheet, Table, Uuid
from bot.rows import GpuRow
from bot.texts import LANGUAGES, Texts
from tests import cases_support
from tests.cases_support import CASES, VERSIONS
from tests.render import SAY, typical

SHEET = Sheet("cards", GpuRow)


def card(used: str, *, node: str = "gpu-1", name: str = "GPU-a", state: str = "free") -> GpuRow:
    given = None if used == "?" else int(used)
    return GpuRow(node, Uuid(name), "T4", state, given, None, 1000, (), "0/10", 0, 100)


def report_of(*cards: GpuRow) -> Report:
    return msgspec.structs.replace(typical(), tables=(SHEET.table(cards),))


def lines(*cards: GpuRow) -> list[str]:
    found = bars(gpus_by_node(report_of(*cards)))
    assert found
    return list(map(SAY.words, found.lines))


@pytest.mark.parametrize(
    ("used", "state", "shown"),
    [
        ("0", "free", "·"),
        ("1", "free", "▁"),
        ("500", "free", "▅"),
        ("999", "free", "▇"),
        ("1000", "no-memory", "█"),
        ("1500", "no-memory", "█"),
        ("0", "cordoned", "x"),
        ("500", "no-slots", "x"),
        ("?", "unknown", "?"),
        ("0", "unregistered", "?"),
    ],
)
def test_a_card_among_nodes_is_one_character(used: str, state: str, shown: str) -> None:
    first, _ = lines(card(used, state=state), card("0", node="gpu-2"))
    assert first.split()[:2] == ["gpu-1", shown]


@pytest.mark.parametrize(
    ("slots", "state", "shown"),
    [
        ("0/1", "free", "·"),
        ("1/1", "no-slots", "█"),
        ("1/4", "free", "▃"),
        ("1/100", "exclusive", "█"),
        ("0/1", "unhealthy", "x"),
    ],
)
def test_a_whole_device_is_given_by_its_slots_whatever_its_memory(slots: str, state: str, shown: str) -> None:
    whole = replace(card("0", state=state), divided=False, slots=slots)
    first, _ = lines(whole, card("0", node="gpu-2"))
    assert first.split()[:2] == ["gpu-1", shown]


def test_of_whole_devices_the_free_ones_are_counted() -> None:
    whole = [replace(card("0", name=name), divided=False, slots="0/1") for name in ("a", "b")]
    assert lines(*whole, card("0", node="gpu-2"))[0].endswith("2 free")


def test_a_node_says_what_is_free_on_it() -> None:
    cards = [card("250"), card("0", name="GPU-b"), card("0", name="GPU-c", state="cordoned")]
    assert lines(*cards, card("1000", node="node-2", state="no-memory"), card("?", node="n3", state="unknown")) == [
        "gpu-1   ▃·x  1,750 MiB free",
        "node-2  █    none free",
        "n3      ?    unknown",
    ]


def test_one_node_s_cards_have_a_line_each() -> None:
    assert lines(card("500"), card("250", name="GPU-longer", state="unhealthy")) == [
        "GPU-a       ████████········  500 MiB free",
        "GPU-longer  ████xxxxxxxxxxxx  750 MiB free, unusable: unhealthy",
    ]


def test_of_very_many_nodes_those_with_the_most_room_are_shown() -> None:
    found = bars(gpus_by_node(report_of(*(card(str(number), node=f"gpu-{number}") for number in range(100)))))
    assert found
    assert (len(found.lines), found.left_out) == (MOST_LINES, 40)
    assert SAY.words(found.lines[0]).startswith("gpu-0 ")


def test_only_cards_that_are_the_answer_are_drawn() -> None:
    as_text = report_of(card("1")).tables[0]
    read_back = Table(as_text.title, as_text.columns, tuple(as_text.rows))
    assert bars(gpus_by_node(msgspec.structs.replace(typical(), tables=(read_back,)))) is None
    assert bars(gpus_by_node(report_of())) is None


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_terminal_shows_every_recorded_node_as_one_line_of_bars(version: str, language: Any) -> None:
    report = cases_support.ask(CASES / version / "recording.tar.gz", verb="gpus")
    say = Texts(language)
    shown = terminal(report, say, width=110, colour=False)
    title, legend = say("bars.title"), say("bars.legend").split()[0]
    (section,) = (part for part in shown.split("\n\n") if part.startswith(title))
    nodes = dict.fromkeys(row.node for row in report.typed(GpuRow))
    assert [line.split()[0] for line in section.splitlines()[1:]] == [*nodes, legend]
