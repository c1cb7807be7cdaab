import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import UsageError
from bot.slack.render.text import escape
from handlers.parsing.question import mentioned_words, normalise, split_words, without_invisible
from handlers.parsing.sentences import meant
from handlers.parsing.slack_grammar import as_command, understand
from tests.growth import grows_faster


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("Help", "help"),
        ("Fit 1x2Gi", "fit 1x2Gi"),
        ("VERBOSITY 5 for 10m", "verbosity 5 for 10m"),
        ("--cluster Prod Verbosity 5", "--cluster Prod verbosity 5"),
        ("--cluster=Prod Profile cpu", "--cluster=Prod profile cpu"),
        ("Gpus --type A100 --node GPU-1", "gpus --type A100 --node GPU-1"),
        ("*Why* x", "why x"),
        ("`Help`", "help"),
        ("Oncall?", "oncall"),
    ],
)
def test_a_verb_may_have_any_case_and_nothing_else_loses_its_own(typed: str, read: str) -> None:
    assert normalise(typed) == read


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("ｗｈｙ　ml/trainer-0", "why ml/trainer-0"),
        ("ｖｅｒｂｏｓｉｔｙ　５", "verbosity 5"),
        ("fit ２x16Gi", "fit 2x16Gi"),
        ("fit 2×16Gi", "fit 2x16Gi"),
        ("why trainer-0？", "why trainer-0"),
        ("why trainer-0。", "why trainer-0"),
        ("why trainer-0 ?", "why trainer-0"),
        ("why 「trainer-0」", 'why "trainer-0"'),
        ("why «trainer-0»", 'why "trainer-0"'),
        ("why\u2003trainer-0\u2009-n\u202fml", "why trainer-0 -n ml"),
        ("why\u200b ml/\u2060trainer\u00ad-0\ufeff", "why ml/trainer-0"),
        ("why ml/trainer\u20110", "why ml/trainer-0"),
        ("？", "?"),
        ("＜!channel＞ ＆amp;", "&lt;!channel&gt; &amp;amp;"),
    ],
)
def test_other_keyboards_other_forms_of_the_same_characters(typed: str, read: str) -> None:
    assert normalise(typed) == read


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("why x ——lang zh", "why x --lang zh"),
        ("why x —lang=zh", "why x --lang=zh"),
        ("why x ーーlang zh", "why x --lang zh"),
        ("why x －－lang zh", "why x --lang zh"),
        ("why x －n ml", "why x -n ml"),
        ("why x –n ml", "why x -n ml"),
        ("why x —n ml", "why x -n ml"),
        ("profile top –nodefraction=0.03", "profile top -nodefraction=0.03"),
        ("why — x", "why x"),
    ],
)
def test_every_keyboards_dash_begins_an_option(typed: str, read: str) -> None:
    assert normalise(typed) == read


@pytest.mark.parametrize(
    "typed",
    [
        "&gt; why x",
        "&gt;why x",
        "› why x",
        "• why x",
        "- why x",
        "/hami why x",
        "／hami why x",
        "@hami-bot why x",
        "&gt; • `/hami why x`",
        "```/hami why x```",
        "`why x`",
    ],
)
def test_what_is_quoted_listed_or_copied_with_its_command_is_the_question(typed: str) -> None:
    assert normalise(typed) == "why x"


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("Verbosity 5 Because “ＧＰＵ” — it’s\u200b full。", "verbosity 5 because “ＧＰＵ” — it’s full。"),
        ("Triage Note 3fa29c1b — １号机 «down»？", "triage note 3fa29c1b — １号机 «down»？"),
        ("Note the fan’s dead…", "note the fan’s dead…"),
        ("triage close ＯＫ\u2060！", "triage close ＯＫ！"),
    ],
)
def test_of_a_reason_and_a_note_only_what_nobody_sees_goes(typed: str, read: str) -> None:
    assert normalise(typed) == read


def read(text: str) -> object:
    """All that is done with the words of a message before a cluster is read; a mistake is an answer too."""
    try:
        words = mentioned_words({"text": text}, "U0BOT")
        return understand(as_command(split_words(words)) or meant(words).words)
    except UsageError as error:
        return error


PIECES = (
    "<@U0BOT|, <@U0BOT>, <, >, <a|b, `, *, _, ~, a, A, a-, a/, 1, -, --, ., ?, !, ;, &gt;, &amp;, ﷺ, é, ａ, —, ＜, off,"
    " /hami, @hami-bot, --cluster, --cluster=a, --lang=x, because, verbosity, note, why, for, ns, 为什么, 命名空间,"
    " kubectl, \", ', \n, \u200b, \u0301\u0316"
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("piece", PIECES.split(", "))
def test_no_message_makes_reading_grow_faster_than_itself(piece: str) -> None:
    for before in ("", "why x", "why ", "为什么 ", "verbosity 5 ", "kubectl "):
        for repeated in (piece, f" {piece}", f"a{piece}", f"{piece}`"):
            for length in (500, 10_000):

                def text(length: int, before: str = before, repeated: str = repeated) -> str:
                    return f"{before}{repeated * ((length - len(before)) // len(repeated))}"

                assert not grows_faster(read, text, length), (before, repeated)


def test_a_regular_expression_of_go_keeps_its_end() -> None:
    assert normalise("Profile list foo.?") == "profile list foo.?"


_TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("-—–－ー‐ \t\n\u3000\u200b`*_~<>&;«»「」“’？?。.!›•/@ˍ∗ｗWw5")),
    max_size=40,
)
_PIECES = st.lists(
    st.one_of(
        _TEXT,
        st.sampled_from(
            ["Verbosity", "because", "ＢＥＣＡＵＳＥ", "Triage", "note", "/hami", "&gt;", "<@U1>", "--cluster", "Ｎote"]
        ),
    ),
    max_size=6,
).map(" ".join)


@given(st.one_of(_TEXT, _PIECES))
def test_words_that_are_read_twice_are_as_they_were_read_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


_LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
_NAME = st.lists(_LABEL, min_size=1, max_size=3).map(".".join)


@given(_LABEL, _NAME)
def test_a_valid_name_of_kubernetes_is_never_changed(namespace: str, name: str) -> None:
    assert normalise(f"why {namespace}/{name}") == f"why {namespace}/{name}"
    assert normalise(f"why {name} -n {namespace}") == f"why {name} -n {namespace}"
    assert normalise(name) == name


@given(_TEXT)
def test_a_reason_is_what_the_person_typed_but_for_what_nobody_sees(text: str) -> None:
    reason = f"x {text} x"
    assert normalise(f"verbosity 5 because {reason}") == f"verbosity 5 because {without_invisible(reason)}"


@given(_LABEL, _LABEL)
def test_a_question_copied_from_what_the_bot_wrote_is_the_question(namespace: str, name: str) -> None:
    asked = f"why {namespace}/{name}"
    assert split_words(escape(asked)) == asked.split()
    assert split_words(escape(f"> {asked} :tada: www.{name}")) == [*asked.split(), ":tada:", f"www.{name}"]


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("为什么 trainer-0 一直 pending？", "why trainer-0"),
        ("为什么trainer-0一直pending？", "why trainer-0"),
        ("為什麼 ml/trainer-0 一直 Pending", "why ml/trainer-0"),
        ("ml/trainer-0 为什么起不来？", "why ml/trainer-0"),
        ("请问为啥 `trainer-0` 还没调度上。", "why trainer-0"),
        ("trainer-0 怎么一直 Pending", "why trainer-0"),
        ("pod trainer-0 一直排队，什么原因？", "why trainer-0"),
        ("为什么「ml/trainer-0」起不来", "why ml/trainer-0"),
        ("命名空间 ml 里的 trainer 为什么一直 pending", "why ml/trainer"),
        ("为什么 ml 命名空间的 trainer 调度不了", "why ml/trainer"),
        ("为什么 trainer-0 调度失败 ——lang zh", "why trainer-0"),
        ("为什么还在 pending？", "pending"),
        ("帮助", "help"),
    ],
)
def test_a_chinese_question_is_the_english_one(sentence: str, question: str) -> None:
    assert (as_command(split_words(sentence)) or meant(sentence).words) == question.split()


@pytest.mark.parametrize(
    "words", ["verbosity 5 because 为什么trainer-0一直pending", "triage note 为什么 trainer-0", "fit 为什么"]
)
def test_chinese_words_behind_another_verb_ask_nothing(words: str) -> None:
    assert as_command(split_words(words)) in (None, words.split())
