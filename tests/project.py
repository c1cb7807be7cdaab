"""The files of the project that the checks read: its locks, its settings, what is committed."""

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock", "requirements-release.lock")


def committed_files() -> list[Path]:
    """What is committed or would be; a copy without git has nothing to tell."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git here")
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


@cache
def tree_of(path: Path) -> ast.Module:
    """What the file says; each is parsed once for all checks, and none may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of it; one walk for all checks."""
    return tuple(ast.walk(tree_of(path)))
