import pytest
from msgspec import structs

from bot.report import Subject, Table
from bot.slack.message import File, Message
from bot.slack.render import blocks
from bot.slack.render.degrade import degraded
from bot.slack.render.report import render_report
from bot.slack.render.text import escape, total_text
from tests.render import SAY, evidence, finding, report, typical
from tests.slack.render import SCENARIOS, assert_fits, assert_inert, report_of, texts


def shown(one):
    return render_report(one, SAY, channel_buttons=True, words="why ml/trainer-0")


def with_table():
    """An answer of which a table is part."""
    return shown(structs.replace(typical(), subject=Subject("GPUs", "", "")))


def kinds(message):
    return {block["type"] for block in message.blocks}


def test_the_table_goes_first_then_all_but_sections_then_all_blocks():
    first, second, third = degraded(with_table())
    assert "table" in kinds(with_table())
    assert "table" not in kinds(first)
    assert {"header", "rich_text", "actions"} <= kinds(first)
    assert kinds(second) == {"section"}
    assert third.blocks == ()


def test_a_table_becomes_aligned_text():
    first, *_ = degraded(with_table())
    table = next(text for text in texts(first) if text.startswith("reason"))
    assert table.splitlines()[:2] == [
        "reason                      count  nodes",
        "8/8 CardInsufficientMemory  2      gpu-1, gpu-2",
    ]


def test_sections_still_say_everything_of_a_usual_answer():
    _, second, _ = degraded(with_table())
    told = "\n".join(texts(second))
    for part in (
        "Warning: No usable GPU",
        "    gpus --node gpu-2",
        "kubectl -n ml delete pod trainer-0",
        "Could not be read: quotas",
    ):
        assert part in told


def test_the_whole_answer_is_a_file_from_sections_on():
    first, second, third = degraded(with_table())
    assert first.files == ()
    for message in (second, third):
        (file,) = message.files
        assert file.name == "answer.txt"
        assert b"8/8 CardInsufficientMemory" in file.content


def test_a_message_that_has_its_whole_answer_keeps_that_and_its_other_files():
    large = report(finding(evidence=(evidence(quote="x" * 2000),)), tables=(Table("t", ("a",), (("1",),) * 500),))
    message = render_report(large, SAY, channel_buttons=False, words="")
    *_, last = degraded(message)
    assert [file.name for file in last.files] == ["answer.md", "t.csv"]


@pytest.mark.parametrize("scenario", SCENARIOS[::8], ids=lambda scenario: scenario.pod)
def test_every_step_fits_and_says_less(scenario):
    steps = [shown(report_of(scenario))]
    steps += degraded(steps[0])
    sizes = [total_text(step.blocks) for step in steps]
    assert sizes[-1] == 0
    assert sizes == sorted(sizes, reverse=True)
    for step in steps:
        assert_fits(step)
        assert_inert(step)
        assert step.text == steps[0].text


def test_a_message_without_blocks_has_no_simpler_form():
    assert list(degraded(Message(escape("hello")))) == []


def test_plain_sections_have_only_text_below_them():
    message = Message(escape("hello"), (blocks.plain_section("hello"),), (File("a.csv", b"1", "a"),))
    (only,) = degraded(message)
    assert only.blocks == ()
    assert [file.name for file in only.files] == ["answer.txt", "a.csv"]
