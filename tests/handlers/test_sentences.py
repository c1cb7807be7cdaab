import pytest

from bot.errors import UsageError
from bot.texts import in_english
from handlers.parsing.sentences import from_verb, plain_question
from handlers.parsing.slack_words import split_words


def asked(text: str) -> list[str]:
    return plain_question(from_verb(split_words(text)))


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("why is my pod trainer-0 pending?", "why trainer-0"),
        ("Why is ml/trainer-0 not running", "why ml/trainer-0"),
        ("why isn’t trainer-0 getting a GPU?", "why trainer-0"),
        ("why can't trainer-0 start and why isn't it scheduled", "why trainer-0"),
        ("why trainer-0?", "why trainer-0"),
        ("why `trainer-0`", "why trainer-0"),
        ("`why ml/trainer-0`", "why ml/trainer-0"),
        ("why is *trainer-0* pending -n ml", "why trainer-0 -n ml"),
        ("why is trainer stuck in namespace ml?", "why trainer -n ml"),
        ("why does trainer-0 sit there forever", "why trainer-0"),
        ("hello, can you tell me why trainer-0 is pending?", "why trainer-0"),
        ("why is it pending?", "why"),
        ("Logs `trainer-0` --since 1h", "logs trainer-0 --since 1h"),
        ("Gpus --node `gpu-1`", "gpus --node gpu-1"),
    ],
)
def test_a_sentence_about_a_pod_is_a_question_about_it(sentence: str, question: str) -> None:
    assert asked(sentence) == question.split()


@pytest.mark.parametrize(
    "words",
    [
        "why pending",
        "why ml/trainer-0 -n ml",
        "wy trainer-0",
        "fit 1x2Gi",
        "verbosity 5 for 10m because `trainer-0` is refused",
        "profiling on because nobody knows why trainer-0 waits",
        "",
    ],
)
def test_what_is_no_such_sentence_stays_as_it_was_typed(words: str) -> None:
    assert asked(words) == words.split()


def test_where_several_words_may_be_the_pod_the_person_is_asked_which() -> None:
    with pytest.raises(UsageError, match=r"which of these words is the pod: trainer-0, trainer-1\?") as caught:
        asked("why are trainer-0 and trainer-1 pending?")
    assert in_english(caught.value.hint) == "For example: why trainer-0"
