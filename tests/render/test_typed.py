"""What shows a report reads its typed rows: nothing there asks for a playbook's name, or for a table by its title."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.project import ROOT, nodes_of

pytestmark = pytest.mark.source


def compared(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The attributes that comparisons and `match` look at."""
    for node in nodes:
        sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
        sides += (node.subject,) if isinstance(node, ast.Match) else ()
        yield from (side.attr for side in sides if isinstance(side, ast.Attribute))


def test_a_comparison_is_seen() -> None:
    assert list(compared(ast.walk(ast.parse("if table.title == 'cards': pass")))) == ["title"]


def test_none_compares_a_playbook_s_name_or_a_table_s_title() -> None:
    shows = [path for place in ("bot/render", "bot/slack/render", "handlers") for path in (ROOT / place).rglob("*.py")]
    assert [path for path in shows if {"playbook", "title", "columns"} & set(compared(nodes_of(path)))] == []


def test_a_playbook_s_tables_are_made_of_typed_rows() -> None:
    calls = [
        (path, node.func)
        for path in (ROOT / "playbooks").rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
    ]
    assert [path for path, call in calls if isinstance(call, ast.Name) and call.id == "Table"] == []
