import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import UsageError
from handlers.parsing.question import LONGEST, as_delivered, join_words, mentioned_words, plain_text, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("why ml/trainer-0", ["why", "ml/trainer-0"]),
        ("  why\tml/trainer-0\n", ["why", "ml/trainer-0"]),
        ("", []),
        ("gpus --type 'NVIDIA A100'", ["gpus", "--type", "NVIDIA A100"]),
        ('gpus --type "NVIDIA A100"', ["gpus", "--type", "NVIDIA A100"]),
    ],
)
def test_words_are_those_of_a_shell(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus —type “NVIDIA A100”", ["gpus", "--type", "NVIDIA A100"]),
        ("gpus –-type „A100“", ["gpus", "--type", "A100"]),
        ("gpus --type ‘NVIDIA A100’", ["gpus", "--type", "NVIDIA A100"]),
        ("why\u00a0trainer-0", ["why", "trainer-0"]),
    ],
)
def test_what_a_phone_makes_of_quotes_and_dashes_is_undone(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("why <http://trainer.ml|trainer.ml>", "why trainer.ml"),
        ("see <https://ci.example/run/7>", "see https://ci.example/run/7"),
        ("<@U1|ada> in <#C1|ops>", "ada in ops"),
        ("<@U1> in <#C1>", "U1 in C1"),
        ("<!here> &lt;x&gt; &amp;amp;", "here <x> &amp;"),
        ("AT&T &lt &quot; &copy;", "AT&T &lt &quot; &copy;"),
    ],
)
def test_slacks_own_markup_is_read_as_a_person_reads_it(text, read):
    assert plain_text(text) == read


def test_what_was_escaped_never_becomes_markup():
    assert plain_text("&lt;!channel&gt;") == "<!channel>"


@pytest.mark.parametrize("text", ["why 'trainer-0", 'why "trainer-0', "why “trainer-0", "why trainer-0\\"])
def test_quotes_that_do_not_match_are_said_to_be_so(text):
    with pytest.raises(UsageError, match="quotes do not match"):
        split_words(text)


def test_a_question_has_a_longest_length():
    assert split_words("x" * LONGEST) == ["x" * LONGEST]
    with pytest.raises(UsageError, match="2,001 characters long; a question has at most 2,000"):
        split_words("x" * (LONGEST + 1))


@pytest.mark.parametrize("text", ["<@U0BOT> why trainer-0", "why trainer-0 <@U0BOT|hami>", "  <@U0BOT>why trainer-0"])
def test_the_mention_of_the_bot_is_no_word_of_the_question(text):
    assert mentioned_words({"text": text}, "U0BOT") == "why trainer-0"


def test_the_mention_of_somebody_else_stays():
    assert mentioned_words({"text": "<@U0BOT> ask <@U1>"}, "U0BOT") == "ask <@U1>"
    assert mentioned_words({"text": "<@U0BOT2> why"}, "U0BOT") == "<@U0BOT2> why"


def test_a_message_may_come_without_text():
    assert mentioned_words({}, "U0BOT") == mentioned_words({"text": None}, "U0BOT") == ""


# Words as the bot itself writes them into a button: a verb, names, types and reasons in their normal form.
_PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@given(st.lists(_PLAIN, max_size=5))
def test_joined_words_are_taken_apart_as_they_were(words):
    words = ["why", *words, "-n", "ml"]
    assert split_words(as_delivered(join_words(words))) == words
