"""The README tells the truth: its commands print what it shows, and it lists every code, setting and verb."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bot.hami.reasons import REASONS
from bot.settings.schema import ClusterSettings, Settings
from playbooks.playbook import find, load
from tests.update_docs import SETTINGS, rows, settings_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```console\n\$ (hami-bot .*?)\n(.*?)```", README, flags=re.DOTALL)
CODE = re.compile(r"""code=["']([a-z-]+)["']|["']([a-z]+(?:-[a-z]+)+)["'],\s*say\(""")


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_of_the_readme_prints_what_the_readme_shows(command: str, shown: str) -> None:
    words = [sys.executable, "-m", "bot", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    pattern = ".*?\n".join(re.escape(part) for part in shown.split("…\n"))
    assert re.fullmatch(pattern + ".*" if shown.endswith("…\n") else pattern, done.stdout + done.stderr, re.DOTALL)


def test_every_finding_code_is_in_the_readme() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").rglob("*.py")]
    codes = {first or second for text in sources for first, second in CODE.findall(text)}
    codes |= {reason.finding for reason in REASONS}
    assert len(codes) > 30
    assert not {code for code in codes if f"`{code}`" not in README}


def test_every_setting_is_in_the_readme() -> None:
    for name in [*Settings.model_fields, *ClusterSettings.model_fields]:
        assert name in README
        assert name.upper() in README


def test_the_page_of_settings_is_what_the_schema_says() -> None:
    assert SETTINGS.read_text(encoding="utf-8") == settings_page(), "run python -m tests.update_docs"
    assert len({row.key for row in rows()}) > 60


@pytest.mark.parametrize("verb", load())
def test_every_verb_is_in_the_readme_and_its_example_is_understood(verb: str) -> None:
    assert f"hami-bot {verb}" in README
    assert find(verb).example.startswith(verb)
