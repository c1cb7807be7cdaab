"""Playbooks of their own that users write: one that works and the ways in which others end."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbooks.own import discovery
from tests.shell import ROOT

WORKS = """
from playbooks.api import Answer, Cluster, Playbook, Texts, finding
async def gather(cluster: Cluster) -> str:
    return cluster.name
def diagnose(snapshot: str, say: Texts) -> Answer:
    return Answer("fine", [finding("fine", severity="info")])
"""
ENDS = 'PLAYBOOK = Playbook("Is it fine?", gather, diagnose)\n'

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that the settings name, with nothing in it."""
    made = tmp_path / "own"
    made.mkdir()
    monkeypatch.setenv("HAMI_BOT_PLAYBOOKS__FOLDER", str(made))
    discovery.use(lambda: made)
    yield made
    discovery.use(lambda: None)


def add(folder: Path, name: str, code: str) -> Path:
    file = folder / f"{name}.py"
    file.write_text(code, encoding="utf-8")
    discovery.use(lambda: folder)
    return file


@pytest.fixture
def examples(folder: Path) -> Path:
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, folder)
    discovery.use(lambda: folder)
    return folder
