"""The English that errors and gaps are made of, read from the code: what `bot/texts/errors.zh.toml` has to know."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("bot", "handlers", "playbooks")
_SENTENCE = re.compile(r"[a-z]{2,}.* .*|.* .*[a-z]{2,}")
_HOLE = "{}"

_TEXTS = {"Gap": (1, 2), "gap": (1, 2), "Denied": (0,), "UnmodelledError": (0,)}
"""Where else than in an error a text begins: by the name of the class, the positions of its texts."""
_WORDS = {"message", "hint", "why"}
_NOT_A_TEXT = {"NotDone"}  # its first word is the name of a text
_TABLES = {
    "bot/access.py": ("_WORDS",),
    "bot/slack/error_words.py": ("HINTS", "OWN_HINTS"),
    "bot/slack/question_tasks.py": ("_HINTS",),
}
"""Texts that stand in dictionaries."""
_MAKERS = {
    "bot/unexpected_errors.py": ("_report",),
    "bot/kube/client/connect.py": ("_unusable",),
    "bot/kube/client/failures.py": ("_broken", "_grant"),
    "bot/safe_yaml.py": ("reason",),
    "bot/store/engine.py": ("_hint",),
    "bot/pprof/listing.py": ("_heaviest",),
    "bot/pprof/sampletypes.py": ("_measured",),
    "playbooks/fit/gpu_words.py": ("_unread",),
    "playbooks/gather/subject.py": ("_no_pod",),
}
"""Functions that return such texts."""

_OF_SETTINGS = ("bot/settings/", "bot/triage/hours.py", "bot/triage/routes.py")
"""Where a ValueError is a text about the settings."""

Known = Mapping[str, list[str]]


@cache
def english() -> dict[str, str]:
    """Every text with a place in the code that makes it; `{}` stands for each value."""
    found: dict[str, str] = {}
    trees = {
        str(path.relative_to(_ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for package in _PACKAGES
        for path in sorted((_ROOT / package).rglob("*.py"))
    }
    errors = _errors(trees.values())
    own = {place: _constants(tree.body, {}) for place, tree in trees.items()}
    for place, tree in trees.items():
        imported = _imported(tree, own)
        for line, expression, known in _made(tree, place, own[place], errors):
            whole = imported.get(expression.id, []) if isinstance(expression, ast.Name) else []
            for text in _texts(expression, known) or whole:
                if _SENTENCE.search(text.replace(_HOLE, "")):
                    found.setdefault(text, f"{place}:{line}")
    return found


def _imported(tree: ast.Module, own: Mapping[str, Known]) -> dict[str, list[str]]:
    """The constants of other modules of ours that it imports by name."""
    found: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            path = node.module.replace(".", "/")
            theirs = own.get(f"{path}.py") or own.get(f"{path}/__init__.py") or {}
            found |= {name.asname or name.name: theirs[name.name] for name in node.names if name.name in theirs}
    return found


def _errors(trees: Iterable[ast.Module]) -> set[str]:
    """BotError and every class below it, by name."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = [(class_.name, {base.id for base in class_.bases if isinstance(base, ast.Name)}) for class_ in classes]
    found = {"BotError"}
    while more := {name for name, above in bases if above & found} - found:
        found |= more
    return found


def _made(tree: ast.Module, place: str, constants: Known, errors: set[str]) -> Iterator[tuple[int, ast.expr, Known]]:
    for function in [
        tree,
        *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)),
    ]:
        known = constants if function is tree else {**constants, **_constants(ast.walk(function), constants)}
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                yield from ((node.lineno, text, known) for text in _of_call(node, place, errors))
        if isinstance(function, ast.FunctionDef) and function.name in _MAKERS.get(place, ()):
            returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
            parts = [part for value in returned for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
            yield from ((part.lineno, part, known) for part in parts)
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(values=values))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=values))
            ) if name in _TABLES.get(place, ()):
                yield from ((value.lineno, value, constants) for value in values)
            case _:
                pass


def _of_call(call: ast.Call, place: str, errors: set[str]) -> list[ast.expr]:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    is_of_settings = name == "ValueError" and place.startswith(_OF_SETTINGS)
    is_of_hami = place.startswith("bot/hami/webhook/")  # its words, verbatim
    if name in _NOT_A_TEXT or is_of_hami or not (name in errors or name in _TEXTS or is_of_settings):
        return []
    at = _TEXTS.get(name, (0,))
    return [
        *(one for position, one in enumerate(call.args) if position in at),
        *(word.value for word in call.keywords if word.arg in _WORDS),
    ]


def _constants(body: Iterable[ast.AST], known: Known) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).extend(_texts(value, known) or [_HOLE])
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for one, value in zip(names, values, strict=True):
                    if isinstance(one, ast.Name):
                        found.setdefault(one.id, []).extend(_texts(value, known) or [_HOLE])
            case _:
                pass
    return {name: [*dict.fromkeys(texts)] for name, texts in found.items()}


def _texts(expression: ast.expr, known: Known) -> list[str]:
    """Every text that the expression may be; none where it is no text of ours."""
    match expression:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(choice) for choice in product(*(_part(part, known) for part in parts))]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_texts(body, known), *_texts(orelse, known)]
        case ast.Name(id=name):
            return known.get(name, [])
        case ast.BinOp(left=left, op=ast.Add(), right=right) if not isinstance(right, ast.Constant):
            return [text + two for text in _texts(left, known) or [_HOLE] for two in _texts(right, known) or [_HOLE]]
        case ast.Call(func=ast.Attribute(value=said, attr="format" | "rstrip" | "strip")):
            return [re.sub(r"\{\w+\}", _HOLE, text).strip() for text in _texts(said, known)]
        case _:
            return []


def _part(part: ast.expr, known: Known) -> list[str]:
    return _texts(part.value if isinstance(part, ast.FormattedValue) else part, known) or [_HOLE]
