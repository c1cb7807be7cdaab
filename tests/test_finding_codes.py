"""The registry of finding codes is complete, each code is given by some rule, and each can be explained."""

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from bot.finding_codes import CODES, Code
from bot.texts import LANGUAGES, Texts
from handlers.parsing.grammar import explain_code
from handlers.parsing.slack_grammar import Help, understand
from playbooks.judgement.nodes import NODES
from tests.cases_support import CASES
from tests.finding_codes import fault_codes, finding_codes

pytestmark = pytest.mark.source


def test_the_registry_has_exactly_the_codes_that_rules_give() -> None:
    assert set(CODES) == set(get_args(Code)) == finding_codes()


def test_every_code_of_a_recorded_case_is_in_the_registry() -> None:
    given = {code for path in CASES.rglob("*.json") for code in _codes(msgspec.json.decode(path.read_bytes()))}
    assert given
    assert given <= set(CODES)


def _codes(found: Any) -> Iterator[str]:
    """The codes of the findings anywhere in a document."""
    if isinstance(found, dict):
        yield from (
            finding["code"]
            for finding in found.get("findings") or ()
            if isinstance(finding, dict) and "code" in finding
        )
    for item in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _codes(item)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_has_a_meaning_a_proof_and_a_fix_in_every_language(language: Any) -> None:
    say = Texts(language)
    assert all(len(say.words(explain_code(code) or "").splitlines()) >= 4 for code in CODES)


def test_every_fault_of_a_node_has_a_rule_that_tells_it() -> None:
    assert len(fault_codes()) > 10
    assert fault_codes() <= {code for stage in NODES for speaks in stage.rules for code in speaks.codes}


def test_slack_explains_a_code_in_either_language() -> None:
    english, chinese = understand(["help", "card-cordoned"]), understand(["help", "card-cordoned", "--lang", "zh"])
    assert isinstance(english, Help)
    assert isinstance(chinese, Help)
    assert "Usual fix: Remove the GPU from the annotation" in english.text
    assert "常用处理" in chinese.text
