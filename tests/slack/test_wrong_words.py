"""Mistakes that people make: each is told in their language, and English says what the code says."""

import asyncio
from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.slack.render.prose import in_words
from bot.texts import Texts, in_english
from handlers.parsing.question import LONGEST, split_words
from handlers.parsing.slack_grammar import understand
from sandbox.slack.content import strings_of
from tests.slack.bot import a_bot

MISTAKES = {
    "wy pod": "您是想用 why 吗",
    "\N{GRINNING FACE}": "可用的命令",
    "why": "why 需要一个 Pod 的名称",
    "why --foo": "没有选项 --foo",
    "pending --namspace ml": "没有选项 --namspace",
    "why a b": "多余的内容：b",
    "gpus --type": "选项 '--type' 需要一个值",
    "pending --all=1": "选项 '--all' 不带值",
    "fit 2 --cores 1.5": "'1.5' 不是整数",
    "pending --al": "没有选项 --al；是否想用 --all？",
    "gpus --lang xx": "'xx' 不是 'en', 'zh' 之一",
    'why "ml/x': "引号不成对",
    "why " + "x" * LONGEST: "2,004 个字符",
}


def wrong(words: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        understand(split_words(words))
    return caught.value


@pytest.mark.parametrize("words", MISTAKES, ids=lambda words: words[:20])
def test_a_mistake_is_told_in_chinese(words: str) -> None:
    assert MISTAKES[words] in " ".join(in_words(wrong(words), Texts("zh")))


def test_a_pod_that_is_missing_is_no_argument() -> None:
    assert in_english(wrong("why").message) == "why needs the name of a pod"


async def test_a_mistake_in_slack_is_told_in_the_language_that_was_asked_for(tmp_path: Path) -> None:
    async with asyncio.timeout(180), a_bot(tmp_path) as here:
        told = await here.command("ada", "wy pod --lang zh", "不知道要查什么")
        assert "pending" in strings_of(told)
        await here.command("ada", "digest daily 25:00 UTC --lang zh", "'25:00' 不是一天中的时间")
