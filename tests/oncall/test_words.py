"""What people write to a triage thread is understood, or answered with an example."""

import pytest

from bot.errors import UsageError
from bot.texts import in_english
from handlers.oncall.digests import read_digest
from handlers.oncall.listeners import _without_options, _words
from handlers.oncall.words import CRON_EXAMPLE, DIGEST_EXAMPLE, EXAMPLES, IncidentRequest, read_words
from handlers.parsing.grammar import CommandAsked
from handlers.parsing.slack_grammar import Help, understand


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("triage", IncidentRequest("show")),
        ("oncall", IncidentRequest("list")),
        ("oncall Report", IncidentRequest("report")),
        ("triage open", IncidentRequest("list")),
        ("Triage ACK", IncidentRequest("ack")),
        ("triage ack 0123abcd", IncidentRequest("ack", "0123abcd")),
        ("triage note it's 5 o'clock", IncidentRequest("note", text="it's 5 o'clock")),
        ("triage note 0123abcd it’s “odd", IncidentRequest("note", "0123abcd", text="it’s “odd")),
        ("triage note --lang=zh is ignored", IncidentRequest("note", text="--lang=zh is ignored")),
        ("triage ack --lang zh", IncidentRequest("ack")),
        ("triage close", IncidentRequest("close")),
        ("triage handover <@U0GRACE001|grace>", IncidentRequest("handover", to="U0GRACE001")),
        ("triage handover <!subteam^S0ONCALL01|@oncall>", IncidentRequest("handover", to="S0ONCALL01")),
        ("triage mute", IncidentRequest("mute")),
        ("triage mute until gone", IncidentRequest("mute")),
        ("triage mute until resolved", IncidentRequest("mute")),
        ("triage mute until node gpu-7 registers", IncidentRequest("mute", node="gpu-7")),
        ("triage mute until node gpu-7.example", IncidentRequest("mute", node="gpu-7.example")),
        ("triage mute 2h", IncidentRequest("mute", seconds=7200)),
        ("triage mute for 90m", IncidentRequest("mute", seconds=5400)),
        ("triage unmute", IncidentRequest("unmute")),
        ("triage unmute 0123abcd", IncidentRequest("unmute", "0123abcd")),
        ("triage export 0123abcd", IncidentRequest("export", "0123abcd")),
    ],
)
def test_it_is_understood(words: str, asked: IncidentRequest) -> None:
    assert read_words(_without_options(_words(words))[1]) == asked


@pytest.mark.parametrize(
    "words",
    ["triage akc", "triage note", "triage handover", "triage handover grace", "triage mute soon", "triage mute 8d",
     "triage mute 200h", "triage mute until node", "triage mute until node GPU/7",
     "triage ack now please", "triage mute 0s", "triage ack --cluster"],
)  # fmt: skip
def test_what_is_not_understood_gets_an_example(words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_words(_without_options(_words(words))[1])
    assert "@hami-bot triage" in caught.value.example


@pytest.mark.parametrize(
    "words", ["mute until 06:00", "mute 6am", "mute 0123abcd until 18:30:00", "mute until 6:00 pm"]
)
def test_a_time_of_day_is_refused_as_one_and_how_to_say_it_is_told(words: str) -> None:
    with pytest.raises(UsageError, match="time of day") as caught:
        read_words(_words(f"triage {words}"))
    assert "triage mute 7h" in in_english(caught.value.hint)


def test_an_example_for_a_command_has_an_id_and_is_understood() -> None:
    asked = read_words(_words(EXAMPLES["triage"]))
    assert asked == IncidentRequest("note", asked.incident, "rebooted gpu-7")
    assert asked.incident
    with pytest.raises(UsageError) as caught:
        read_words(["triage", "akc"])
    with_id = in_english(caught.value.advice).partition("/hami ")[2].removesuffix(".")
    assert read_words(with_id.split()) == IncidentRequest("ack", asked.incident)


@pytest.mark.parametrize("verb", ["triage", "oncall"])
def test_the_verbs_are_in_the_help(verb: str) -> None:
    assert f"/hami {verb}" in str(understand(["help", "more"]))
    assert f"/hami {verb}" in str(understand(["help", verb]))
    assert isinstance(understand([verb]), CommandAsked)  # of which a form says that it is no question


def test_the_help_tells_how_a_digest_is_posted_by_itself_and_what_it_names_is_understood() -> None:
    help_ = understand(["help", "digest"])
    assert isinstance(help_, Help)
    told = " ".join(help_.text.split())
    for words in ("digest now", DIGEST_EXAMPLE, CRON_EXAMPLE, "digest stop ID"):
        assert words in told
        read_digest(words.split()[1:])
    everything = understand(["help", "more"])
    assert isinstance(everything, Help)
    assert f"/hami {DIGEST_EXAMPLE}" in everything.text


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
