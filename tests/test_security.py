"""`docs/threats.md` names a test for each attack, and the tests exist."""

import ast
import re
from functools import cache

import pytest
import yaml

from tests.project import LOCKS, ROOT, tree_of

pytestmark = pytest.mark.source

PAGE = (ROOT / "docs" / "threats.md").read_text()
ROWS = re.findall(r"^\| (?!attack |---)(.+?) \| (.+?) \| `(.+?)::(.+?)` \|$", PAGE, re.MULTILINE)


@cache
def functions_of(path: str) -> set[str]:
    tree = tree_of(ROOT / path)
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_test_of_each_attack_exists() -> None:
    assert [f"{path}::{name}" for *_, path, name in ROWS if name not in functions_of(path)] == []


def test_every_line_of_the_tables_names_an_attack_a_defence_and_one_test() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| attack ")]
    assert len(lines) == len(ROWS) > 50
    assert len({name for *_, name in ROWS}) > len(ROWS) - 2  # two clients have a test of one name
    assert len({(path, name) for *_, path, name in ROWS}) == len(ROWS)


def test_every_kind_of_attack_has_its_lines() -> None:
    parts = {part.partition("\n")[0]: part.count("::test_") for part in PAGE.split("\n## ")[1:-1]}
    assert len(parts) == 11
    assert min(parts.values()) >= 2


def test_the_audit_asks_about_every_lock() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "audit.yml").read_text())
    triggers = workflow[True]  # YAML 1.1 reads `on` as that
    assert triggers["schedule"]
    assert triggers["push"]["paths"] == triggers["pull_request"]["paths"] == ["requirements*.lock"]
    assert {path.name for path in ROOT.glob("requirements*.lock")} >= set(LOCKS)
    [steps] = [job["steps"] for job in workflow["jobs"].values()]
    assert steps[-1] == {"run": "make audit"}
    recipe = re.search(r"^audit:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    assert "--require-hashes" in recipe[1]
    assert "$(wildcard requirements*.lock)" in recipe[1]
