"""Every language says the same, the code asks for no text that is missing, and no text is left over.

What the code asks for is read from its `Text(…)` and `say(…)` calls, whose keys are written whole.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from bot.finding_codes import CODES
from bot.hami.fit.advice import What
from bot.hami.nodes.registration import Why
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.report import VERDICT_LIMIT
from bot.texts import (
    LANGUAGES,
    Language,
    OwnTexts,
    Text,
    Texts,
    clauses,
    fitting,
    listed,
    literal,
    sentences,
    together,
    unstopped,
)
from playbooks.rules.waiting.refusals import CLAIMS
from tests.project import nodes_of, tree_of

pytestmark = pytest.mark.source

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("bot", "playbooks", "handlers")
_OF_THE_TEXTS = "bot/texts/__init__.py"
_OF_A_CODE = "words_of"
"""The one function that makes a key: of a code, which is the name of a section."""
_OF_ANY_VENDOR = (
    *(f"playbooks/{part}/" for part in ("gather", "gpus", "judgement", "nodes", "quota", "rules", "why")),
    "bot/render/picture.py",
)
"""What they say may be about another vendor's devices: it has `{GPU}`, not the word."""
_ASCII_PUNCTUATION_BESIDE_CHINESE = re.compile(r"[一-鿿] ?[,;:!?()]|[,;:!?()] ?[一-鿿]|[一-鿿]\.")

ENGLISH = Texts("en")
languages = pytest.mark.parametrize("language", LANGUAGES)
other_languages = pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])

_TYPICAL = {
    "asked": "8 × 24,000 MiB",
    "expires": "2026-11-21T05:05:00Z",
    "nodes": "gpu-node-01, gpu-node-02 及另外 5 个",
    "owner": "ml/trainer-6d5f7c9b8-x7k2p",
    "slice": "gpu-node-17 上的 12,000 MiB",
    "text": "node(s) had untolerated taint {gpu: true}",
    "uuids": "GPU-5114d1cc-6998-593e-0a18-91193cf4a2fa",
    "value": "2026-11-21T05:00:00Z,ml,trainer-6d5f7c9b8-x7k2p",
    "why": "no binding pod found on node gpu-node-17",
}


class Call(NamedTuple):
    """One `Text(…)` or `say(…)`: where, the keys (none: not written whole), the values it is given for certain."""

    place: str
    keys: tuple[str, ...]
    values: frozenset[str]
    open_ended: bool


def _fields(template: str) -> set[str]:
    """The names of the values; a word that goes with a number names that number."""
    return {name.partition("(")[0] for _, name, _, _ in Formatter().parse(template) if name is not None}


Names = dict[str, list[ast.expr]]
"""What the names of a function are assigned, and what stands in the tables of its module."""


def _whole(expression: ast.expr, names: Names) -> list[str] | None:
    """The keys that it may be, if each stands there whole: see the test of it."""
    match expression:
        case ast.Constant(value=str(key)):
            return [key]
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name in names:
            parts, names = names[name], {other: values for other, values in names.items() if other != name}
        case _:
            return None
    found = [_whole(part, names) for part in parts]
    return None if None in found else [key for keys in found for key in keys or ()]


def _calls_of(scope: ast.AST, place: str, tables: Names) -> list[Call]:
    assigned: Names = {}
    bound: list[str] = []
    calls: list[ast.Call] = []
    for node in ast.walk(scope):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                assigned.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound.append(name)
            case ast.Call(func=ast.Name(id="say" | "Text") | ast.Attribute(attr="say" | "_say"), args=[_]):
                calls.append(node)
            case _:
                pass
    names = tables | {name: values for name, values in assigned.items() if bound.count(name) == len(values)}
    found: list[Call] = []
    for call in calls:
        keys = _whole(call.args[0], names) or ()
        given = frozenset(word.arg for word in call.keywords if word.arg)
        open_ended = any(word.arg is None for word in call.keywords)
        found.append(Call(f"{place}:{call.lineno}", tuple(keys), given, open_ended))
    return found


@cache
def _trees() -> dict[str, ast.Module]:
    files = (file for package in _PACKAGES for file in sorted((_ROOT / package).rglob("*.py")))
    return {str(file.relative_to(_ROOT)): tree_of(file) for file in files}


def _tables(tree: ast.Module) -> Names:
    found: Names = {}
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(values=values))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=values))
            ):
                found[name] = values
            case _:
                pass
    return found


def _scopes(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Each function with those inside it, and what stands outside of all."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _scopes(statement.body)
        elif getattr(statement, "name", "") != _OF_A_CODE:
            yield statement


@cache
def _calls() -> tuple[Call, ...]:
    trees = {place: tree for place, tree in _trees().items() if place != _OF_THE_TEXTS}
    return tuple(
        call
        for place, tree in trees.items()
        for scope in _scopes(tree.body)
        for call in _calls_of(scope, place, _tables(tree))
    )


# ---------------------------------------------------------------------------------------------- languages


@other_languages
def test_every_language_has_the_keys_of_english(language):
    assert sorted(Texts(language).templates) == sorted(ENGLISH.templates)


@other_languages
def test_a_text_has_the_same_placeholders_in_every_language(language):
    theirs = {key: _fields(text) for key, text in Texts(language).templates.items()}
    assert theirs == {key: _fields(text) for key, text in ENGLISH.templates.items()}


@languages
def test_every_text_shows_each_value_it_is_given(language):
    say = Texts(language)
    for key, template in say.templates.items():
        values = {name: f"<{name}>" for name in _fields(template)}
        text = say(key, **values)
        assert all(value in text for value in values.values()), key


@languages
def test_no_text_holds_control_characters_or_blanks_at_its_ends(language):
    texts = Texts(language).templates
    assert [key for key, text in texts.items() if not text.isprintable() or text != text.strip() or "  " in text] == []


def test_chinese_prose_has_chinese_punctuation():
    texts = Texts("zh").templates
    assert [key for key, text in texts.items() if _ASCII_PUNCTUATION_BESIDE_CHINESE.search(text)] == []


@other_languages
def test_a_translation_fits_the_line_of_a_verdict_with_typical_values(language):
    say = Texts(language)
    said = {
        key: say(key, **{name: _TYPICAL.get(name, "x" * 12) for name in _fields(text)})
        for key, text in say.templates.items()
    }
    assert [key for key, text in said.items() if len(text) > VERDICT_LIMIT] == []


# --------------------------------------------------------------------------------------------------- code


def test_every_key_is_written_whole_where_it_is_asked_for():
    """A key in quotes, an `a if … else b` of such keys, a name that the function assigns nothing but such keys, or
    `TABLE[…]` of a dict of such keys in the same module.
    """
    assert [call.place for call in _calls() if not call.keys] == []


def test_every_key_that_the_code_asks_for_exists_and_every_one_is_asked_for():
    asked = {key: call.place for call in _calls() for key in call.keys}
    assert {key: place for key, place in asked.items() if key not in ENGLISH.templates} == {}
    of_codes = {f"{code}.{part}" for code in CODES for part in ("meaning", "fix")}
    assert ENGLISH.templates.keys() - asked.keys() - of_codes == set()


def test_every_text_gets_its_values_where_it_is_asked_for():
    lacking = [
        (call.place, key, lacks)
        for call in _calls()
        for key in call.keys
        if not call.open_ended and (lacks := _fields(ENGLISH.templates[key]) - call.values)
    ]
    assert lacking == []


_SENTENCE = re.compile(r"[a-z]{2,}.* .*|.* .*[a-z]{2,}")
_TOLD = {"gap": (1, 2), "Gap": (1, 2)}
"""Where in a call prose stands, elsewhere than in an error."""


@cache
def _errors() -> set[str]:
    """BotError, WrongValue and every class below them, by name."""
    classes = [node for place in _trees() for node in nodes_of(_ROOT / place) if isinstance(node, ast.ClassDef)]
    found = {"BotError", "WrongValue"}
    while more := {one.name for one in classes if found & {ast.unparse(base) for base in one.bases}} - found:
        found |= more
    return found


def _sentences_in(prose: ast.expr, assigned: dict[str, list[ast.expr]]) -> list[str]:
    match prose:
        case ast.Constant(value=str(text)):
            return [text] if _SENTENCE.search(text) else []
        case ast.JoinedStr(values=parts):
            text = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
            return [text] if _SENTENCE.search(text) else []
        case ast.IfExp(body=body, orelse=orelse):
            return _sentences_in(body, assigned) + _sentences_in(orelse, assigned)
        case ast.BoolOp(values=parts):
            return [text for part in parts for text in _sentences_in(part, assigned)]
        case ast.BinOp(left=left, right=right):
            return _sentences_in(left, assigned) + _sentences_in(right, assigned)
        case ast.Name(id=name):
            return [text for value in assigned.get(name, []) for text in _sentences_in(value, {})]
        case _:
            return []


def test_no_error_and_no_gap_is_told_in_english_only():
    found: set[str] = set()
    scopes = [(place, scope, tree.body) for place, tree in _trees().items() for scope in _scopes(tree.body)]
    for place, scope, module in scopes:
        nodes = list(ast.walk(scope))
        assigned: dict[str, list[ast.expr]] = {}
        for node in (*module, *nodes):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, []).append(node.value)
        for call in nodes:
            name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
            if isinstance(call, ast.Call) and (name in _TOLD or name in _errors()):
                told = [prose for at, prose in enumerate(call.args) if at in _TOLD.get(name, (0,))]
                told += [word.value for word in call.keywords if word.arg in ("message", "hint", "why")]
                found |= {f"{place}:{call.lineno}: {text}" for one in told for text in _sentences_in(one, assigned)}
    assert sorted(found) == []


# A node without a registration has a text per reason for that instead of one claim.
@pytest.mark.parametrize("code", sorted({reason.finding for reason in REASONS} - {"node-unregistered"}))
def test_every_reason_that_can_be_a_cause_has_a_claim(code):
    assert CLAIMS[code] in ENGLISH


def test_a_section_stands_in_one_file() -> None:
    sections = [section for document in _documents() for section in document]
    assert sorted(sections) == sorted(set(sections))


@languages
def test_a_text_that_is_read_with_its_section_is_that_of_the_whole_file(language: Language) -> None:
    texts = {
        f"{section}.{key}": text[language]
        for document in _documents()
        for section, keys in document.items()
        for key, text in keys.items()
        if isinstance(text, dict)
    }
    read = Texts(language).templates
    assert texts.keys() == read.keys()
    assert [key for key, text in texts.items() if "GPU" not in text and text != read[key]] == []


def _documents() -> list[dict[str, dict[str, Any]]]:
    folder = _ROOT / "bot" / "texts"
    return [tomllib.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.toml")]


@pytest.mark.parametrize("why", sorted({*get_args(Why), "normal"} - {"stale", "deleted"}))
def test_every_way_of_being_unregistered_has_a_text(why):
    assert f"node-unregistered.{why}" in ENGLISH


@pytest.mark.parametrize("state", ["stale", "deleted"])
def test_every_bad_handshake_has_a_claim(state):
    assert f"handshake-{state}.claim" in ENGLISH


@pytest.mark.parametrize("what", get_args(What))
def test_every_change_that_can_be_advised_has_a_text(what):
    assert what.startswith("drop-") or f"change.{what}" in ENGLISH  # those name the annotations


def test_words_go_with_their_number():
    one, two = (ENGLISH("card-not-healthy.kept", count=count, nodes="gpu-1", version="2.10") for count in (1, "2"))
    assert one.startswith("1 GPU on gpu-1 is registered")
    assert "gives it to" in one
    assert two.startswith("2 GPUs on gpu-1 are registered")
    assert "gives them to" in two


@pytest.mark.parametrize(
    ("noun", "said"),
    [
        ("GPU", "1 of 4 GPUs can still"),
        ("NPU", "1 of 4 NPUs can still"),
        ("Neuron device", "1 of 4 Neuron devices can"),
    ],
)
def test_texts_about_another_vendor_s_devices_say_its_own_word(noun, said):
    words = Texts("en").about(noun)
    assert words("capacity.claim", free=1, cards=4, memory="1 MiB", type="T", node="n").startswith(said)


@pytest.mark.parametrize(("noun", "said"), [("MLU", "50% of an MLU"), ("Neuron device", "50% of a Neuron device")])
def test_the_article_is_that_of_the_word_as_it_is_spoken(noun, said):
    assert Texts("en").about(noun)("words.percent-of-card", percent=50) == said


def test_chinese_texts_about_other_devices_speak_of_no_graphics_cards():
    said = Texts("zh").about("NPU")("card-not-healthy.seen", count=2, nodes="npu-1")
    assert said == "npu-1 上有 2 个 NPU 注册为不健康。"
    assert Texts("zh").about("device")("words.devices", cards=2) == "2 个设备"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("gpu-1, gpu-2", "HAMi 找不到 gpu-1, gpu-2 的锁。"),
        ("gpu-1 及另外 2 个", "HAMi 找不到 gpu-1 及另外 2 个的锁。"),
        ("gpu-1（空闲）", "HAMi 找不到 gpu-1（空闲）的锁。"),
        ("节点 甲", "HAMi 找不到节点 甲的锁。"),
    ],
)
def test_in_chinese_a_blank_beside_a_value_goes_with_what_stands_there(nodes, said):
    own = OwnTexts("zh", {"zh": {"lock.none": "HAMi 找不到 {nodes} 的锁。"}})
    assert own("lock.none", nodes=nodes) == said


@pytest.mark.parametrize(
    "quote", ["拉取 镜像 失败 。 重试", 'kubectl annotate node gpu-1 note="甲 乙"', "甲；乙 ， 丙"]
)
def test_in_chinese_a_quote_keeps_its_blanks(quote):
    assert quote in Texts("zh")("allocate-failed.claim", node="gpu-1", why=quote)


@pytest.mark.parametrize(("language", "told"), [("en", "a; b, c. d"), ("zh", "a；b、c. d")])
def test_clauses_and_lists_have_the_punctuation_of_the_language(language, told):
    say = Texts(language)
    assert f"{say.words(clauses(['a', listed(['b', 'c'])]))}. d" == told


@pytest.mark.parametrize(("language", "told"), [("en", "One. Two."), ("zh", "One.Two.")])
def test_between_two_sentences_is_a_blank_but_not_in_chinese(language, told):
    assert Texts(language).words(sentences("One.", "", "Two.")) == told


@pytest.mark.parametrize("language", LANGUAGES)
def test_with_another_word_for_devices_no_text_is_left_that_speaks_of_gpus(language):
    words = Texts(language).about("NPU").templates
    asked = {key for call in _calls() if call.place.startswith(_OF_ANY_VENDOR) for key in call.keys}
    told = {key: text for key, text in words.items() if key in asked}
    assert told
    assert {key: text for key, text in told.items() if re.search(r"\bGPUs?\b(?! Operator)", text, re.ASCII)} == {}
    assert [text for text in words.values() if re.search(r"\ba NPU|_GPU\}|\{GPUs?\}", text)] == []


def test_a_text_is_put_into_the_language_of_the_reader_with_the_texts_in_it():
    text = Text("obstacles.several", claim=unstopped(Text("running.claim", pod="ml/a", node="gpu-1")), others="x")
    english, chinese = (Texts(language).words(text) for language in ("en", "zh"))
    assert "ml/a" in english
    assert ". " not in english.partition("ml/a")[0]
    assert re.search("[一-鿿]", chinese)
    assert Texts("zh").words(literal("one", "一")) == "一"


def test_a_text_reads_the_same_from_its_key_and_values_as_json_has_them():
    inner = listed([Text("words.none"), "b"])
    text = Text("words.and-more", names=inner, more=2)
    kept = msgspec.json.decode(msgspec.json.encode(text.data))
    for language in LANGUAGES:
        assert Texts(language)(text.key, **kept) == Texts(language).words(text)


def test_of_several_forms_the_first_that_fits_is_told():
    forms = ["a long form", "short", "no"]
    assert ENGLISH.words(fitting(forms, 6)) == "short"
    assert ENGLISH.words(fitting(forms, 1)) == "no"


def test_devices_are_called_by_the_vendor_s_word_also_in_the_texts_within():
    inner = Text("words.percent-of-card", percent=50)
    text = listed([inner, inner.about("DCU")])
    assert ENGLISH.words(text.about("NPU")) == "50% of an NPU, 50% of a DCU"


def test_a_text_is_no_words_before_it_has_a_language():
    with pytest.raises(TypeError, match="is no words yet"):
        str(Text("words.none"))
    with pytest.raises(TypeError, match="is no words yet"):
        f"{Text('words.none')}"


@languages
def test_what_stands_together_has_the_comma_of_its_language_between_it_and_nothing_for_what_is_empty(language):
    say = Texts(language)
    where, unset = Text("render.in-cluster", cluster="prod"), Text("render.unset")
    assert say.words(together("Pod ml/a", "", where, unset, by=", ")) == {"en": ", ", "zh": "，"}[language].join(
        ["Pod ml/a", say.words(where), say.words(unset)]
    )
