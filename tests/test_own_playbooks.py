"""Playbooks of a team's own: they are asked as ours are, and what is wrong in one breaks nothing else."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.kube.client.connect import open_cluster
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.texts import Texts
from handlers.doctor.checks import own_playbooks
from handlers.doctor.links import Link, in_words
from handlers.mcp_server import USUAL, input_schema, offered_playbooks
from handlers.parsing.sentences import as_command
from handlers.parsing.slack_grammar import Help, example, understand
from handlers.shell import Processes
from handlers.shell import main as shell
from playbooks.own import discovery, running
from playbooks.own.discovery import playbook_of
from playbooks.own.interface import OwnPlaybookError
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from tests import own_playbooks as own
from tests.chart import BOT, granted, manifests
from tests.cluster_rights import Noting
from tests.own_playbooks import ENDS, WORKS, add
from tests.shell import POD, RECORDING, served

folder, examples = own.folder, own.examples

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Asks in a shell; the exit code and both outputs."""

    async def never(*_: object) -> None:
        raise AssertionError

    def asked(*words: str) -> tuple[int, str, str]:
        code = shell(Processes(never, never), words)
        return code, *capsys.readouterr()

    return asked


# --------------------------------------------------------------------------------------------- where it is asked


def test_a_file_in_the_folder_is_a_verb_of_the_shell_with_its_help(examples: Path, ask: Ask) -> None:
    code, out, _ = ask("evictions", "--recording", RECORDING, "-o", "json")
    assert (code, json.loads(out)["playbook"]) == (0, "evictions")
    assert "evictions " in ask("help")[1]
    told = ask("help", "evictions")[1]
    assert "--node NODE" in told
    assert "Example: hami-bot evictions --node gpu-node-07" in told
    assert "Did you mean evictions?" in ask("eviction")[2]
    assert "没有被驱逐" in ask("evictions", "--recording", RECORDING, "--lang", "zh")[1]


def test_it_is_a_verb_of_slack_with_its_help(examples: Path) -> None:
    asked: Any = understand(["evictions", "--node", "gpu-1"])
    assert (asked.playbook.verb, asked.request) == ("evictions", {"node": "gpu-1"})
    told = understand(["help", "more"])
    assert isinstance(told, Help)
    assert "/hami evictions --node gpu-node-07" in told.text
    assert "Which nodes evict pods, and for what?" in told.text
    assert example(["evictoins"]) == "/hami evictions --node gpu-node-07"
    assert as_command(["Evictions", "--node", "`gpu-1`"]) == ["evictions", "--node", "gpu-1"]


def test_it_is_a_tool_of_the_mcp_server(examples: Path) -> None:
    assert tuple(offered_playbooks(())) == (*USUAL[:7], "evictions")
    offered = offered_playbooks(("whole-gpus", "why"))
    schema = input_schema(offered["whole-gpus"], ())
    assert schema["properties"] == {"namespace": {"type": "string", "description": "[NAMESPACE]"}}


def found_by_doctor() -> list[Link]:
    return in_words(asyncio.run(own_playbooks(None)), Texts("en"))


def test_doctor_has_a_line_for_each(examples: Path) -> None:
    links = found_by_doctor()
    assert [(link.name, link.state, link.about) for link in links] == [
        ("playbook", "ok", "evictions"),
        ("playbook", "ok", "whole-gpus"),
    ]


def test_doctor_warns_of_a_folder_and_of_files_that_everybody_may_change(examples: Path) -> None:
    for path in (examples, examples / "evictions.py"):
        path.chmod(path.stat().st_mode | 0o002)
    links = found_by_doctor()
    warned = [(link.state, link.seen, link.fix) for link in links if link.state != "ok"]
    assert warned == [
        (
            "degraded",
            f"Every user of this machine can change {path}. The bot runs what is in it with its own rights.",
            f"chmod o-w {path}",
        )
        for path in (examples, examples / "evictions.py")
    ]


def test_an_installed_package_adds_a_verb(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    site = tmp_path / "site"
    (site / "acme_hami-1.0.dist-info").mkdir(parents=True)
    (site / "acme_hami-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-hami\nVersion: 1.0\n")
    points = "[hami_bot.playbooks]\nacme = acme_hami:PLAYBOOK\nwhy = acme_hami:PLAYBOOK\nlost = acme_gone:PLAYBOOK\n"
    (site / "acme_hami-1.0.dist-info" / "entry_points.txt").write_text(points)
    (site / "acme_hami.py").write_text(WORKS + ENDS)
    monkeypatch.syspath_prepend(site)
    assert json.loads(ask("acme", "--recording", RECORDING, "-o", "json")[1])["verdict"] == "fine"
    assert "the playbook lost does not work: ModuleNotFoundError" in ask("lost", "--recording", RECORDING)[2]
    links = {link.about: (link.state, link.seen) for link in found_by_doctor()}
    assert links["acme"] == ("ok", "A playbook of your own: acme_hami:PLAYBOOK of acme-hami.")
    assert links["lost"][0] == "degraded"
    assert "there is a verb why already" in links["why"][1]


def test_a_verb_of_ours_looks_for_no_others(examples: Path, ask: Ask) -> None:
    assert ask("why", POD, "--recording", RECORDING)[0] == 0
    assert discovery.own.cache_info().misses == 0


# --------------------------------------------------------------------------------------------- what may be wrong

AT_IMPORT = {
    "def gather(:": "SyntaxError: invalid syntax (broken.py:1)",
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module' (broken.py:1)",
    "raise SystemExit('bye')": "SystemExit: bye (broken.py:1)",
    "x = 1": "broken.py has no PLAYBOOK",
    "PLAYBOOK = 7": "PLAYBOOK is of the type int, not playbooks.api.Playbook",
    "from playbooks.api import Playbook\nPLAYBOOK = Playbook()": "TypeError: ",
    f"{WORKS}PLAYBOOK = Playbook(7, gather, diagnose)": "summary of PLAYBOOK is not what it should be: 7",
    f"{WORKS}PLAYBOOK = Playbook('x', gather, diagnose, ['team'])": "parameters of PLAYBOOK is not what it should",
    f"{WORKS}PLAYBOOK = Playbook('x', gather, diagnose, texts={{'en': 'x'}})": "texts of PLAYBOOK is not what",
    f"{WORKS}import click\nPLAYBOOK = Playbook('x', gather, diagnose, [click.Option(['-o'])])": "has the option -o",
    f"{WORKS}import click\nPLAYBOOK = Playbook('x', gather, diagnose, [click.Argument(['lang'])])": "option lang",
}
AT_RUN_TIME = {
    "async def gather(cluster): return {}['x']": "KeyError: 'x' (broken.py:7)",
    "async def gather(cluster): raise SystemExit(3)": "SystemExit: 3 (broken.py:7)",
    "def gather(cluster): return 1": "TypeError: object int can't be used in 'await' expression",
    "def diagnose(snapshot, say): return 1 / 0": "ZeroDivisionError: division by zero (broken.py:7)",
    "def diagnose(snapshot, say): return say('claim')": "KeyError: 'claim' (broken.py:7)",
    "def diagnose(snapshot, say): return 'fine'": "diagnose returned str, not an Answer",
    "def diagnose(snapshot, say): return Answer('fine', [])": "the answer has no finding",
    "def diagnose(snapshot, say): return Answer('', [finding('x', severity='info')])": "the answer has no verdict",
    "def diagnose(snapshot, say): return Answer('x', ['x'])": "str stands among the findings",
    "def diagnose(snapshot, say): return Answer('x', [finding('x')])": "the finding 'x' quotes no evidence",
    "def diagnose(snapshot, say): return Answer('x', [finding('x', severity='bad')])": "the finding 'x' quotes no",
    "def diagnose(snapshot, say): return Answer('x', [finding('x', severity='info', confidence='so')])": "Invalid enum",
}


@pytest.mark.parametrize(("code", "told"), AT_IMPORT.items())
def test_a_file_that_does_not_import_is_told_wherever_it_is_asked(folder: Path, ask: Ask, code: str, told: str) -> None:
    add(folder, "fine", WORKS + ENDS)
    add(folder, "broken", code + "\n")
    exit_code, out, err = ask("broken", "--recording", RECORDING, "whatever", "--option", "x")
    assert (exit_code, out) == (1, "")
    assert err.startswith("hami-bot: the playbook broken does not work: ")
    assert told in err
    assert "Traceback" not in err
    assert "Please report" not in err
    assert ask("fine", "--recording", RECORDING)[0] == 0
    assert "does not work" in ask("help")[1]
    assert "does not work" in understand(["help", "more"]).text  # type: ignore[union-attr]
    assert example(["broken"]) == "/hami broken"
    assert tuple(offered_playbooks(())) == (*USUAL[:7], "fine")
    links = {link.about: link for link in found_by_doctor()}
    assert (links["broken"].state, links["fine"].state) == ("degraded", "ok")
    assert told in links["broken"].seen


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("x = (", 0),
        ("PLAYBOOK = 7", 0),
        ("def of_team(): raise ValueError\nof_team()", 2),
        (f"{WORKS}def diagnose(snapshot, say): return 1 / 0\n{ENDS}", 1),
    ],
    ids=["syntax", "no playbook", "import", "diagnose"],
)
def test_the_log_has_the_lines_of_the_playbook_and_none_of_the_bots(
    folder: Path, ask: Ask, caplog: pytest.LogCaptureFixture, code: str, lines: int
) -> None:
    file = add(folder, "broken", f"{code}\n")
    ask("broken", "--recording", RECORDING)
    assert f"the playbook broken does not work ({file})" in caplog.text
    assert caplog.text.count(f'File "{file}", line ') == lines + (code == "x = (")
    assert caplog.text.count('File "') == caplog.text.count(f'File "{file}"')


@pytest.mark.parametrize(("code", "told"), AT_RUN_TIME.items())
def test_what_fails_when_it_is_asked_names_the_line_and_fails_alone(
    folder: Path, ask: Ask, code: str, told: str
) -> None:
    add(folder, "broken", f"{WORKS}{code}\n{ENDS}")
    exit_code, out, err = ask("broken", "--recording", RECORDING)
    assert (exit_code, out) == (1, "")
    assert err.startswith("hami-bot: the playbook broken does not work: ")
    assert told in err
    assert "自定义" in ask("broken", "--recording", RECORDING, "--lang", "zh")[2]


def test_a_file_that_changed_is_read_again_without_a_restart(folder: Path, ask: Ask) -> None:
    file = add(folder, "late", "import no_such_module\n")
    assert ask("late", "--recording", RECORDING)[0] == 1
    for verdict in ("fine", "finer"):
        file.write_text((WORKS + ENDS).replace('Answer("fine"', f'Answer("{verdict}"'))
        os.utime(file, ns=(0, len(verdict)))
        assert playbook_of("late").summary
        assert json.loads(ask("late", "--recording", RECORDING, "-o", "json")[1])["verdict"] == verdict
    file.unlink()
    assert "does not work: FileNotFoundError" in understand_error("late")


def test_a_broken_file_is_not_imported_anew_at_every_question(folder: Path) -> None:
    add(folder, "counts", "import sys\nsys.own_imports = getattr(sys, 'own_imports', 0) + 1\nraise ValueError\n")
    for _ in range(3):
        assert "ValueError" in understand_error("counts")
    assert sys.own_imports == 1  # type: ignore[attr-defined]


def understand_error(verb: str) -> str:
    with pytest.raises(OwnPlaybookError) as raised:
        understand([verb])
    return str(raised.value)


def test_a_wrong_word_is_told_as_one_of_ours_is(folder: Path, ask: Ask) -> None:
    add(
        folder,
        "picky",
        f"{WORKS}from playbooks.api import UsageError\n"
        "async def gather(cluster): raise UsageError('no such team', hint='Teams: a, b')\n" + ENDS,
    )
    assert ask("picky", "--recording", RECORDING) == (2, "", "hami-bot: no such team\nTeams: a, b\n")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("why", "there is a verb why already"),
        ("doctor", "there is a verb doctor already"),
        ("My Playbook", "My Playbook is no verb"),
        ("2nd", "2nd is no verb"),
    ],
)
def test_a_name_that_is_taken_or_no_verb_is_left_out_and_told(
    folder: Path, ask: Ask, caplog: pytest.LogCaptureFixture, name: str, told: str
) -> None:
    add(folder, name, WORKS + ENDS)
    assert ask("why", POD, "--recording", RECORDING, "-o", "json")[1].startswith('{\n  "schema": "hami-bot.report/v1"')
    (link,) = found_by_doctor()
    assert (link.state, bool(link.fix)) == ("degraded", True)
    assert told in link.seen
    discovery.log_left_out()
    assert told in caplog.text


def test_a_folder_that_is_not_there_is_told(folder: Path, ask: Ask) -> None:
    folder.rmdir()
    assert ask("why", POD, "--recording", RECORDING)[0] == 0
    (link,) = found_by_doctor()
    assert f"There is no folder {folder}" in link.seen


def test_files_with_an_underscore_and_other_files_are_no_verbs(folder: Path) -> None:
    add(folder, "_shared", "x = 1\n")
    (folder / "notes.txt").touch()
    assert discovery.own() == discovery.Own({}, ())


def test_credentials_in_what_a_playbook_says_are_masked(folder: Path, ask: Ask) -> None:
    secret = "password=hunter2-hunter2"
    add(
        folder,
        "loose",
        f"{WORKS}from playbooks.api import Evidence, Gap, NextAction, Subject, Table\nsecret = {secret!r}\n"
        "def diagnose(snapshot, say):\n"
        "    proof = Evidence('pod', f'Pod {secret}', None, secret, f'kubectl get pods # {secret}')\n"
        "    action = NextAction(secret, f'curl {secret}')\n"
        "    found = finding(secret, [proof], nodes=[secret], actions=[action])\n"
        "    table = Table(secret, (secret,), ((secret,),))\n"
        "    return Answer(secret, [found], [table], [Gap(secret, secret, secret)], Subject('Team', '', secret))\n"
        + ENDS,
    )
    code, out, _ = ask("loose", "--recording", RECORDING, "-o", "json")
    assert code == 0
    assert "hunter2" not in out


async def test_one_that_blocks_holds_up_nobody_else(folder: Path) -> None:
    gate = "import threading\nGATE = threading.Event()\nasync def gather(cluster): return GATE.wait(60)\n"
    add(
        folder,
        "slow",
        f"{WORKS}{gate}def diagnose(free, say):\n    return Answer(str(free), [finding('x', severity='info')])\n{ENDS}",
    )
    playbook = playbook_of("slow")
    asking = asyncio.create_task(playbook.gather({}, Sources(RecordedCluster.open(Path(RECORDING)))))
    await asyncio.sleep(0)
    sys.modules["hami_bot_own_slow"].GATE.set()  # which a loop that is held up never comes to
    assert playbook.report(await asking, Texts("en")).verdict == "True"


def test_one_that_never_ends_is_given_up(folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LONGEST_S", 0.01)
    code = "import threading\ndef diagnose(snapshot, say): threading.Event().wait()\n"
    add(folder, "endless", f"{WORKS}{code}{ENDS}")
    assert "TookTooLongError: it took longer than 0.01 s" in ask("endless", "--recording", RECORDING)[2]


def test_a_changed_file_whose_import_never_ends_holds_the_bot_up_for_a_moment_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = add(folder, "late", WORKS + ENDS)
    assert playbook_of("late").summary
    monkeypatch.setattr(discovery, "AGAIN_S", 0.01)
    file.write_text("import threading\nthreading.Event().wait()\n")
    os.utime(file, ns=(0, 1))
    assert "the playbook late is still being imported" in understand_error("late")


def test_a_changed_file_answers_once_its_long_import_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = add(folder, "late", WORKS + ENDS)
    assert playbook_of("late").summary
    monkeypatch.setattr(discovery, "AGAIN_S", 0.01)
    file.write_text(f"import threading\nGATE = threading.Event()\nassert GATE.wait(60)\n{WORKS}{ENDS}")
    os.utime(file, ns=(0, 1))
    assert "the playbook late is still being imported" in understand_error("late")
    [importing] = discovery._imports.values()
    sys.modules["hami_bot_own_late"].GATE.set()
    assert importing.result(60)
    assert playbook_of("late").summary


def test_a_live_cluster_is_read_as_a_recording_is(examples: Path, tmp_path: Path, ask: Ask) -> None:
    with served(tmp_path) as kubeconfig:
        live = ask("whole-gpus", "--kubeconfig", str(kubeconfig), "-o", "json")[1]
    recorded = ask("whole-gpus", "--recording", RECORDING, "-o", "json")[1]
    assert json.loads(live)["findings"] == json.loads(recorded)["findings"]


EVERYTHING = """
from playbooks.api import *
KINDS = [PODS, NODES, EVENTS, NAMESPACES, RESOURCE_QUOTAS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS]
async def gather(cluster):
    hami, seen = await cluster.hami(), []
    for kind in KINDS:
        for one in (await cluster.list(kind))[:1]:
            seen.append((await cluster.get(kind, one.name, one.namespace)).name == one.name)
    try:
        await cluster.get(NODES, "no-such-node,metadata.name!=x")
    except NotFound as error:
        return seen, hami.gaps, str(error)
def diagnose(snapshot, say):
    return Answer(repr(snapshot), [finding("fine", severity="info")])
PLAYBOOK = Playbook("Everything that may be read", gather, diagnose)
"""


async def test_all_that_is_promised_can_be_read_with_the_rights_of_the_chart(folder: Path) -> None:
    add(folder, "everything", EVERYTHING)
    playbook, access = playbook_of("everything"), Noting(granted(manifests(), BOT))
    async with ApiServer.from_recording(Path(RECORDING)) as server:
        server.access = access
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with await open_cluster(kubeconfig=config) as live:
            verdict = playbook.report(await playbook.gather({}, Sources(live)), Texts("en")).verdict
    assert verdict.startswith("([True, True, True, True")
    assert "False" not in verdict
    assert verdict.endswith("""not found')""")
    assert access.refusals == []
