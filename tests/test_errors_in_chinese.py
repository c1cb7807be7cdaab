"""Every error and every gap is in Chinese where Chinese is asked for. A text that is missing is named."""

import re
import tomllib
from pathlib import Path

import pytest

from bot.texts.errors import in_language
from tests.error_texts import english

_FILE = Path(__file__).parents[1] / "bot" / "texts" / "errors.zh.toml"
TEXTS = tomllib.loads(_FILE.read_text(encoding="utf-8"))
OWN: dict[str, str] = TEXTS["own"]
ALL = OWN | TEXTS["foreign"]


def test_every_text_of_an_error_or_a_gap_has_its_chinese():
    assert {text: place for text, place in english().items() if text not in OWN} == {}


def test_no_text_is_left_over():
    assert [text for text in OWN if text not in english()] == []


def test_a_text_has_the_same_values_in_chinese():
    counts = {
        text: (text.count("{}"), chinese.count("{}") + len(re.findall(r"\{\d\}", chinese)))
        for text, chinese in ALL.items()
    }
    assert {text: count for text, count in counts.items() if len(set(count)) > 1} == {}
    numbered = [[int(digit) for digit in re.findall(r"\{(\d)\}", chinese)] for chinese in ALL.values()]
    assert [digits for digits in numbered if sorted(digits) != list(range(len(digits)))] == []


def test_what_is_raised_in_english_is_found_again_among_the_texts():
    for text, chinese in ALL.items():
        values = iter(f"<{number}>" for number in range(9))
        raised = re.sub(re.escape("{}"), lambda _, values=values: next(values), text)
        told = in_language(raised, "zh")
        assert all(value in told for value in re.findall(r"<\d>", raised)), text
        assert (told == raised) == (chinese == text), text


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("there is no verb 'wyh'", "没有命令 'wyh'"),
        ("nothing was changed: the store did not answer within 5 s", "没有做任何更改：存储未能在 5 秒内应答"),
        ("/tmp/x.tar.gz: the profile is empty", "/tmp/x.tar.gz：剖析是空的"),
        ("Give either -f FILE or a number of GPUs. Name the unit.", "请只给出 -f FILE 或 GPU 数之一。请写明单位。"),
        (
            "Invalid value for '--cores': 200 is not in the range 0<=x<=100.",
            "'--cores' 的值无效：200 不在范围 0<=x<=100 内。",
        ),
        (
            "settings are wrong: http.bind: Value error, must be HOST:PORT, such as 0.0.0.0:8080",
            "设置有误：http.bind：值有误，必须是 HOST:PORT，例如 0.0.0.0:8080",
        ),
    ],
)
def test_a_message_within_a_message_is_told_as_well(raised: str, told: str):
    assert in_language(raised, "zh") == told


@pytest.mark.parametrize("words", ["pods is forbidden", "上下文 x 无法使用", "", "x: y", "{}", "0<=x<=1"])
def test_words_of_others_stay_as_they_are(words: str):
    assert in_language(words, "zh") == words


def test_english_stays_english():
    assert in_language("there is no verb 'x'", "en") == "there is no verb 'x'"
