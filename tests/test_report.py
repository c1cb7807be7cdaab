"""A report is data until it is shown, and a line that is too long is cut where a reader can follow it."""

import msgspec
import pytest

from bot.report import Report, as_json, in_words, one_line
from bot.texts import LANGUAGES, Texts
from tests.cases_support import Question, questions, scenarios

QUESTIONS = [*(scenario.question for scenario in scenarios()), *questions()]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: f"{asked.version} {asked.verb} {asked.name}")
def test_an_answer_kept_in_english_is_shown_in_chinese_without_reading_the_cluster_again(asked: Question) -> None:
    english, chinese = (asked.ask(language=language) for language in LANGUAGES)
    kept = msgspec.json.decode(as_json(english), type=Report)
    shown = in_words(kept, Texts("zh"))
    assert (shown.verdict, shown.findings, shown.gaps) == (chinese.verdict, chinese.findings, chinese.gaps)
    assert kept.verdict_key
    assert all(finding.key for finding in kept.findings)
    assert all(action.key for finding in kept.findings for action in finding.next_actions)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short  enough,\nas it is", "short enough, as it is"),
        ("refused 4 of 4 nodes: CardInsufficientMemory", "refused 4 of 4 nodes…"),
        ("two pods wait here (the oldest for an hour)", "two pods wait here (the…"),
        ("a sentence that ends here, another one begins", "a sentence that ends here…"),
        ("配额已用完" * 4 + " " + "配额已用完" * 2, "配额已用完" * 4 + "…"),
        (
            "短 配额已用完配额已用完配额已用完配额已用完配额已用完配额已用完",
            "短 配额已用完配额已用完配额已用完配额已用完配额已用完…",
        ),
        ("see gpu-node-with-a-name-that-is-longer-than-all", "see gpu-node-with-a-name-th…"),
        ("gpu-node-with-a-name-that-is-longer-than-all", "gpu-node-with-a-name-that-i…"),
    ],
)
def test_a_long_line_loses_whole_words_unless_it_has_none_to_lose(text: str, shown: str) -> None:
    assert one_line(text, 28) == shown
    assert len(shown) <= 28
    assert one_line(shown, 28) == shown
