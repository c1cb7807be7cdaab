"""What may follow `oncall` is told where something else does."""

import pytest

from bot.errors import UsageError
from bot.texts import in_english
from handlers.oncall.words import read_words


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("oncall rport", "did you mean 'report'?"),
        ("oncall tomorrow", "only 'report' may follow oncall"),
        ("oncall report july", "'july' is too much"),
    ],
)
def test_after_oncall_an_unknown_word_is_told_what_may_follow(words: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_words(words.split())
    assert told in in_english(caught.value.message)
    assert "/hami oncall report" in in_english(caught.value.hint)
