"""What shows a report reads its typed rows: nothing there asks for a playbook's name, or for a table by its title."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file for place in ("bot/render", "bot/slack/render", "handlers") for file in ROOT.glob(f"{place}/**/*.py")
)


def compared(tree: ast.AST) -> Iterator[str]:
    """The attributes that comparisons and `match` look at."""
    for node in ast.walk(tree):
        sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
        sides += (node.subject,) if isinstance(node, ast.Match) else ()
        yield from (side.attr for side in sides if isinstance(side, ast.Attribute))


def test_a_comparison_is_seen() -> None:
    assert list(compared(ast.parse("if table.title == 'cards': pass"))) == ["title"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_none_compares_a_playbook_s_name_or_a_table_s_title(file: Path) -> None:
    found = set(compared(ast.parse(file.read_text(encoding="utf-8"))))
    assert not found & {"playbook", "title", "columns"}


@pytest.mark.parametrize("file", sorted(ROOT.glob("playbooks/**/*.py")), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_playbook_s_tables_are_made_of_typed_rows(file: Path) -> None:
    calls = (node.func for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "Table"]
