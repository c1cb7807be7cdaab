"""`kubectl hami`: kubectl runs the program `kubectl-hami` with the words behind it."""

import subprocess
import sys
import tomllib

import pytest

from tests.shell import POD, RECORDING, ROOT, hami_bot

pytestmark = pytest.mark.process

SCRIPT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["kubectl-hami"]


def kubectl_hami(*words: str) -> subprocess.CompletedProcess[str]:
    """Run what the script of that name runs."""
    module, _, function = SCRIPT.partition(":")
    code = f"from {module} import {function}; {function}()"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("words", [("why", POD), ("nodes", "-o", "json")])
def test_it_answers_as_the_shell_does(words: tuple[str, ...]) -> None:
    plugin, ours = (program(*words, "--recording", RECORDING) for program in (kubectl_hami, hami_bot))
    assert (plugin.returncode, plugin.stdout, plugin.stderr) == (0, ours.stdout, "")


def test_its_help_and_its_errors_say_what_to_type() -> None:
    told = kubectl_hami("help", "why")
    assert "Usage: kubectl hami why" in told.stdout
    assert "Example: kubectl hami why ml/trainer-0" in told.stdout
    wrong = kubectl_hami("wyh")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("kubectl hami: there is no verb 'wyh'\nDid you mean why? For example: kubectl hami")


@pytest.mark.parametrize("verb", ["verbosity", "serve", "audit"])
def test_it_has_only_the_verbs_that_read(verb: str) -> None:
    told = kubectl_hami(verb).stderr
    assert f"there is no verb '{verb}' here\nOnly the program hami-bot has it, in a terminal." in told
    assert f"For example: hami-bot {verb} --help" in told
