"""The MCP server as a client meets it: the SDK's own client over real standard input and output."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters

from bot.errors import UsageError
from bot.report import Evidence, Finding, Report, Scope, Sheet, Subject, as_json
from bot.texts import Texts, in_english
from handlers.mcp_server import MOST, USUAL, capped, input_schema, offered_playbooks, typed_words
from handlers.parsing.grammar import Grammar, read
from handlers.shell import Processes
from handlers.shell import main as shell
from playbooks.playbook import find
from tests.cases_support import CASES, VERSIONS
from tests.report_schema import PUBLISHED, validated
from tests.shell import POD, RECORDING, ROOT, hami_bot, served

pytestmark = pytest.mark.process

ASKED: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]] = {
    "why": ({"pod": POD.partition("/")[2], "namespace": "ml"}, ("s03-card-insufficient-memory", "-n", "ml")),
    "fit": ({"cards": ["2x16Gi"], "cores": 50}, ("2x16Gi", "--cores", "50")),
    "pending": ({"all": True}, ("--all",)),
    "nodes": ({}, ()),
    "gpus": ({"type": "T4"}, ("--type", "T4")),
    "quota": ({"namespace": "ml"}, ("ml",)),
    "status": ({"all": False}, ()),
    "tune": ({"template": "production"}, ("--template", "production")),
}


class Told(NamedTuple):
    """What a tool gave."""

    is_error: bool
    text: str
    structured: Any


def session(
    args: Sequence[str], calls: Sequence[tuple[str, Mapping[str, Any]]], mode: str = "auto"
) -> tuple[list[Any], list[Told]]:
    """The tools that a server with these words offers, and what its calls give. `mode`: how the client greets it."""

    async def run() -> tuple[list[Any], list[Told]]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "bot", "mcp", *args], cwd=ROOT)
        async with Client(server, mode=mode) as client:
            tools = await client.list_tools()
            told = [await client.call_tool(verb, dict(arguments)) for verb, arguments in calls]
        return tools.tools, [Told(bool(text.is_error), text.content[0].text, text.structured_content) for text in told]

    return asyncio.run(run())


def in_a_shell(capsysbinary: pytest.CaptureFixture[bytes], *words: str) -> str:
    """What the shell prints for the same question."""

    async def never(*_: object) -> None:
        raise AssertionError

    capsysbinary.readouterr()
    assert shell(Processes(never, never), words) == 0
    return capsysbinary.readouterr().out.decode()


@pytest.mark.parametrize("version", VERSIONS)
def test_each_tool_answers_with_the_json_of_the_shell(version: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    recording = str(CASES / version / "recording.tar.gz")
    calls = [(verb, ASKED[verb][0]) for verb in USUAL if verb != "why" or recording == RECORDING]
    words = {verb: (verb, *ASKED[verb][1], "--recording", recording, "-o", "json") for verb, _ in calls}
    expected = [in_a_shell(capsysbinary, *words[verb]) for verb, _ in calls]
    _, told = session(["--recording", recording], calls)
    assert [text.text for text in told] == expected
    assert [text.structured for text in told] == [json.loads(text) for text in expected]


def test_fit_takes_the_text_of_a_manifest_as_a_shell_takes_standard_input() -> None:
    manifest = (CASES / "pod.yaml").read_text()
    calls = [("fit", {"manifest": manifest}), ("fit", {"manifest": "kind: Service"}), ("fit", {"manifest": 5})]
    _, (fits, wrong, no_text) = session(["--recording", RECORDING], calls)
    assert fits.text == hami_bot("fit", "-f", "-", "--recording", RECORDING, "-o", "json", stdin=manifest).stdout
    assert wrong.is_error
    assert no_text.text == "manifest is no text: 5"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_eight_tools_are_offered_that_only_read_and_say_what_an_answer_looks_like(mode: str) -> None:
    tools, (status,) = session(["--recording", RECORDING], [("status", {})], mode)
    assert status.structured["playbook"] == "status"
    assert tuple(tool.name for tool in tools) == USUAL
    assert all(tool.annotations.read_only_hint for tool in tools)
    published = json.loads(PUBLISHED.read_text())
    for tool in tools:
        assert tool.output_schema == {**published["$defs"]["Report"], "$defs": published["$defs"]}
    (why,) = (tool.input_schema for tool in tools if tool.name == "why")
    assert why["required"] == ["pod"]
    assert why["additionalProperties"] is False


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_went_wrong_is_told_in_words_and_the_server_goes_on(language: str) -> None:
    calls = [
        ("why", {}),
        ("why", {"name": "x"}),
        ("wyh", {"pod": "x"}),
        ("why", {"pod": ["x"]}),
        ("fit", {"cards": "2x16Gi"}),
        ("pending", {"all": "yes"}),
        ("gpus", {"node": "--help"}),
        ("status", {}),
    ]
    _, told = session(["--recording", RECORDING, "--lang", language], calls)
    *wrong, hyphen, right = told
    assert all(answer.is_error for answer in wrong)
    assert not right.is_error
    assert not hyphen.is_error
    for answer in wrong:
        assert "Traceback" not in answer.text
        assert "a bug" not in answer.text
    if language == "en":
        assert "why needs POD" in wrong[0].text
        assert "why has no parameter 'name'\nIts parameters: pod, namespace." in wrong[1].text
        assert "Did you mean why?" in wrong[2].text


def by_id(messages: Sequence[str], last: int) -> dict[Any, Any]:
    """What a server answers to these lines, up to the answer with the id `last`, by their ids."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    first = json.dumps({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
    words = [sys.executable, "-m", "bot", "mcp", "--recording", RECORDING]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(f"{line}\n" for line in (first, *messages)).encode())
        server.stdin.flush()
        answers = {}
        while last not in answers:
            answer = json.loads(server.stdout.readline())
            answers[answer["id"]] = answer
        server.stdin.close()
        assert server.stdout.read() == b""
    assert server.returncode == 0
    return answers


def test_text_that_is_no_unicode_gets_an_error_and_the_server_goes_on() -> None:
    half = r"\ud800"

    def call(number: object, arguments: str, verb: str = "why") -> str:
        params = f'{{"name": "{verb}", "arguments": {arguments}}}'
        return f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {params}}}'

    messages = [
        call(1, f'{{"pod": "{half}"}}'),
        call(2, f'{{"pod": "x", "namespace": "a{half}"}}'),
        call(3, f'{{"{half}": "x"}}'),
        call(4, "{}", verb=half),
        call(5, f'{{"manifest": "kind: Pod\\n{half}"}}', verb="fit"),
        call(6, f'{{"pod": ["{half}"]}}'),
        call('"a"', r'{"pod": "\udc00\ud800"}'),
        call(7, "[" * 5_000 + "]" * 5_000),
        '{"jsonrpc": "2.0", "id": 8}',
        call(f'"{half}"', "{}"),
        f'{{"jsonrpc": "2.0", "method": "notifications/{half}"}}',
        "",
        call(9, '{"pod": "x"}'),
    ]
    answers = by_id(messages, 9)
    assert len(answers) == 11
    for number in (1, 2, 3, 4, 5, 6, "a"):
        assert answers[number]["error"]["code"] == -32700
        assert "hex escape" in answers[number]["error"]["message"]
    assert answers[8]["error"]["code"] == -32600
    assert answers[None]["error"]["code"] == -32700
    assert answers[9]["result"]["isError"] is False


def test_a_live_cluster_is_read_as_the_shell_reads_it(tmp_path: Path) -> None:
    with served(tmp_path) as kubeconfig:
        _, told = session(["--kubeconfig", str(kubeconfig)], [("why", {"pod": POD})])
    assert told[0].structured["findings"][0]["code"] == "card-insufficient-memory"


def test_with_several_clusters_in_the_settings_a_call_names_one(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    others = str(CASES / "hami-2.9.0" / "recording.tar.gz")
    settings.write_text(json.dumps({"clusters": {"a": {"recording": RECORDING}, "b": {"recording": others}}}))
    calls = [("status", {"cluster": "b"}), ("status", {"cluster": "a"}), ("status", {}), ("status", {"cluster": "c"})]
    tools, told = session(["--config", str(settings), "--tools", "status"], calls)
    assert tools[0].input_schema["properties"]["cluster"]["enum"] == ["a", "b"]
    assert [text.structured["cluster"] for text in told[:2]] == ["b", "a"]
    assert "Configured clusters: a, b" in told[2].text
    assert "there is no cluster 'c'" in told[3].text


# --------------------------------------------------------------------------------------------- without a server


def test_an_answer_that_is_too_large_says_what_was_left_out() -> None:
    report = large(rows=3000, findings=40)
    small = validated(capped(report, Texts("en"), 12_000))
    assert len(as_json(small).encode()) <= 12_000
    assert small.gaps[:-1] == report.gaps
    assert small.findings[0].code == report.findings[0].code
    kept, quotes = len(small.tables[0].rows), sum(len(finding.evidence) for finding in small.findings)
    told = small.gaps[-1].why
    assert f"{kept} of 3000 rows of the table pods" in told
    assert f"{quotes} of 120 quotes" in told
    assert f"the first {len(small.findings)} of 40 findings" in told
    assert in_english(small.gaps[-1].advice).endswith("hami-bot pending -o json")


def test_an_answer_of_the_usual_size_is_left_as_it_is() -> None:
    report = large(rows=3, findings=2)
    assert capped(report, Texts("en")) is report


def test_rows_are_left_out_before_any_finding() -> None:
    small = capped(large(rows=3000, findings=2), Texts("en"), 20_000)
    assert small.findings == large(rows=0, findings=2).findings
    assert 0 < len(small.tables[0].rows) < 3000


@pytest.mark.parametrize("named", ["doctor", "oncall", "idle-holder", "verbosity"])
def test_what_is_no_tool_is_answered_with_those_that_are(named: str) -> None:
    _, (told,) = session(["--recording", RECORDING], [(named, {})])
    assert told.is_error
    assert "there is no verb" in told.text
    assert not [word for word in ("erminal", "in Slack", "help ") if word in told.text]


def test_other_verbs_may_be_chosen() -> None:
    assert tuple(offered_playbooks(("latency", "digest"))) == ("latency", "digest")
    with pytest.raises(UsageError, match="Did you mean latency"):
        offered_playbooks(("latenci",))
    with pytest.raises(UsageError, match="9 tools are too many: at most 8"):
        offered_playbooks(tuple(map(str, range(MOST + 1))))


def test_no_tool_reads_a_file_that_the_client_names() -> None:
    assert "file" not in input_schema(find("fit"), ())["properties"]
    with pytest.raises(UsageError, match="no parameter 'file'"):
        typed_words(find("fit"), {"file": ["/etc/passwd"]})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["--help", "-f", "--"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(USUAL), st.data())
def test_whatever_a_client_sends_is_a_question_or_a_mistake_that_is_told(verb: str, data: st.DataObject) -> None:
    names = [parameter.name for parameter in find(verb).parameters]
    arguments = data.draw(st.dictionaries(st.sampled_from([*names, "else"]), JSON, max_size=3))
    with contextlib.suppress(UsageError):
        assert read(Grammar("hami-bot", tuple), typed_words(find(verb), arguments)).playbook.verb == verb


def test_nothing_but_the_server_imports_the_sdk() -> None:
    built = "import sys, handlers.shell, handlers.shell_grammar; handlers.shell_grammar.build_grammar()"
    code = f"{built}; sys.exit(any(module.startswith('mcp') for module in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "handlers.mcp_server", raising=False)

    async def never(*_: object) -> None:
        raise AssertionError

    assert shell(Processes(never, never), ["mcp", "--recording", RECORDING]) == 2
    told = capsys.readouterr().err
    assert "the MCP server needs the extra mcp\nInstall it: pip install '.[mcp]' in a checkout" in told
    assert "pip install 'PATH/OF/THE.whl[mcp]'" in told


class _Row(NamedTuple):
    pod: str
    waits_for: str


def large(rows: int, findings: int) -> Report:
    quote = Evidence("event", "Pod ml/a", None, "0/4 nodes are available", "kubectl get pods")
    one = Finding("capacity", "no room " * 8, "warning", "confirmed", Scope(), (quote, quote, quote))
    table = Sheet("pods", _Row).table([_Row(f"ml/trainer-{number}", "2 GPUs") for number in range(rows)])
    return Report(
        schema="hami-bot.report/v1",
        playbook="pending",
        cluster="lab",
        taken_at="2026-11-21T06:13:30Z",
        subject=Subject("Cluster", "", "lab"),
        verdict="no room",
        severity="warning",
        findings=tuple(msgspec.structs.replace(one, claim=f"{one.claim}{number}") for number in range(findings)),
        tables=(table,),
    )
