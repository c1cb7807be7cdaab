"""Writes the tables that stand twice, in `docs/` and in the code: `python -m tests.update_docs`, then read the diff."""

import ast
import inspect
import json
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bot.finding_codes import PROOFS, Proof, words_of
from bot.report import SCHEMA, Report
from bot.settings.schema import PREFIX, Settings
from bot.texts import Language, Texts
from handlers.parsing.slack_grammar import FIRST
from handlers.shell_grammar import PROGRAM
from playbooks.playbook import load
from tests.chart import CHART, install_manifest, rules_manifest
from tests.chart_schema import values_schema
from tests.dashboard import DASHBOARD, dashboard
from tests.threads.every import THREADS
from tests.threads.thread import Grade

DOCS = Path(__file__).parents[1] / "docs"
CODES = DOCS.parent / "bot" / "finding_codes.py"
OF_CODES = DOCS.parent / "bot" / "texts" / "findings.toml"
SETTINGS = DOCS / "settings.md"
FINDINGS: dict[Language, Path] = {"en": DOCS / "findings.md", "zh": DOCS / "zh" / "findings.md"}
COMMANDS: dict[Language, Path] = {"en": DOCS / "commands.md", "zh": DOCS / "zh" / "commands.md"}
READMES: dict[Language, Path] = {"en": DOCS.parent / "README.md", "zh": DOCS.parent / "README.zh.md"}
INCIDENTS = DOCS / "incidents.md"
PROJECT = DOCS.parent / "pyproject.toml"
INSTALL = DOCS.parent / "deploy" / "install.yaml"
RULES = DOCS.parent / "deploy" / "prometheus-rules-bot.yaml"
VALUES_SCHEMA = CHART / "values.schema.json"
REPORT_SCHEMA = DOCS / "report.schema.json"
_TABLE = re.compile(r"(?<=<!-- generated: python -m tests.update_docs -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
_CODES = re.compile(r"(?<=^Code = Literal\[\n).*?(?=^\])", re.DOTALL | re.MULTILINE)
_VERBS = re.compile(r'(?<=^containers = \["playbooks"\]\nlayers = \[\n    ").*?(?=",$)', re.MULTILINE)
_HEADINGS: dict[Language, tuple[str, str]] = {
    "en": ("| code | meaning | proof | usual fix |", "| proof | meaning |"),
    "zh": ("| 代码 | 含义 | 依据 | 常用处理 |", "| 依据 | 含义 |"),
}
_COLUMNS: dict[Language, str] = {"en": "| command | what it does |", "zh": "| 命令 | 作用 |"}
_NAMED = {"clusters": "NAME", "channels": "ID"}


class Row(NamedTuple):
    """One setting: its path in the file, its variable (empty for part of a list), its default and its meaning."""

    key: str
    variable: str
    default: str
    meaning: str


def rows(model: type[BaseModel] = Settings, path: str = "", *, in_list: bool = False) -> Iterator[Row]:
    """Every setting in the order of the schema."""
    meanings = docstrings(model)
    for name, field in model.model_fields.items():
        key = f"{path}{name}"
        within, way = _model_in(field.annotation)
        if name in meanings or within is None:
            variable = "" if in_list else PREFIX + key.upper().replace(".", "__")
            yield Row(key, variable, _default(field), meanings[name])
        if within is not None:
            below = {"dict": f".{_NAMED.get(name, 'NAME')}.", "tuple": "[].", "": "."}[way]
            yield from rows(within, key + below, in_list=in_list or way == "tuple")


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The text under each field of the class, on one line."""
    (tree,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(field.target, ast.Name):
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def settings_page() -> str:
    """`docs/settings.md` with the table as the schema says it."""
    lines = ["| key | environment | default | meaning |", "|---|---|---|---|"]
    for row in rows():
        variable = f"`{row.variable}`" if row.variable else ""
        lines.append(f"| `{row.key}` | {variable} | {row.default} | {row.meaning} |")
    return _TABLE.sub(lambda _: "\n".join(lines), SETTINGS.read_text(encoding="utf-8"))


def codes_module() -> str:
    """`bot/finding_codes.py` with the names of the sections of their texts."""
    names = textwrap.fill(", ".join(f'"{code}"' for code in _sections()), 116, break_on_hyphens=False)
    return _CODES.sub(textwrap.indent(names, "    ") + ",\n", CODES.read_text(encoding="utf-8"))


def project() -> str:
    """`pyproject.toml` with every verb in the import contract of playbooks."""
    return _VERBS.sub(" : ".join(load()), PROJECT.read_text(encoding="utf-8"))


def _sections() -> dict[str, dict[str, Any]]:
    return tomllib.loads(OF_CODES.read_text(encoding="utf-8"))


def findings_page(language: Language) -> str:
    """The page of finding codes in that language, with the table as the registry of codes says it."""
    say = Texts(language)
    of_codes, of_proofs = _HEADINGS[language]
    lines = [of_codes, "|---|---|---|---|"]
    for code, facts in _sections().items():
        fix = words_of(code, "fix")
        told = say.words(fix) if fix.key in say else ""
        lines.append(f"| `{code}` | {say.words(words_of(code, 'meaning'))} | {facts['proof']} | {told} |")
    lines += ["", of_proofs, "|---|---|"]
    lines += [f"| {proof} | {say.words(PROOFS[proof])} |" for proof in get_args(Proof)]
    return _TABLE.sub(lambda _: "\n".join(lines), FINDINGS[language].read_text(encoding="utf-8"))


def commands_page(language: Language) -> str:
    """The page of commands with the table that `docs/commands.toml` has in both languages."""
    told = tomllib.loads((DOCS / "commands.toml").read_text(encoding="utf-8"))["command"]
    lines = [_COLUMNS[language], "|---|---|"]
    lines += [f"| {row['words'].get(language, row['words']['en'])} | {row['tell'][language]} |" for row in told]
    return _TABLE.sub(lambda _: "\n".join(lines), COMMANDS[language].read_text(encoding="utf-8"))


def readme(language: Language) -> str:
    """The README with the commands that help shows first."""
    lines = [_COLUMNS[language], "|---|---|"]
    lines += [f"| `{PROGRAM} {words}` | {Texts(language).words(text)} |" for words, text in FIRST.items()]
    return _TABLE.sub(lambda _: "\n".join(lines), READMES[language].read_text(encoding="utf-8"))


def incidents_page() -> str:
    """`docs/incidents.md` with the table as the threads of the tests say it."""
    grades = [thread.grade for thread in THREADS]
    counts = ", ".join(f"{grades.count(grade)} {grade}" for grade in get_args(Grade))
    lines = [f"Of {len(THREADS)} threads: {counts}.", ""]
    lines += ["| thread | symptom | verb | said first | grade | why |", "|---|---|---|---|---|---|"]
    for finding in THREADS:
        cells = (
            f"[{finding.name}]({finding.link})",
            finding.symptom,
            f"`{finding.verb}`",
            f"`{finding.code}`",
            finding.grade,
            finding.because,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return _TABLE.sub(lambda _: "\n".join(lines), INCIDENTS.read_text(encoding="utf-8"))


def report_schema() -> str:
    """The JSON Schema of a report, as its model says it."""
    return json.dumps(msgspec.json.schema(Report) | {"title": SCHEMA}, indent=2) + "\n"


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The settings that a field holds, and whether in a `dict`, a `tuple` or by itself."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (argument for argument in get_args(annotation) if argument is not type(None))
    origin, arguments = get_origin(annotation), get_args(annotation)
    held = arguments[-1] if origin is dict else arguments[0] if origin is tuple else annotation
    if isinstance(held, type) and issubclass(held, BaseModel):
        return held, {dict: "dict", tuple: "tuple"}.get(origin, "")
    return None, ""


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value in (None, "", (), {}) or isinstance(value, BaseModel | tuple | dict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main() -> None:
    """Rewrite the tables, the schemas, the dashboard, and the manifests for those who install without Helm."""
    if CODES.read_text(encoding="utf-8") != (codes := codes_module()):
        CODES.write_text(codes, encoding="utf-8")
        os.execv(sys.executable, [sys.executable, "-m", "tests.update_docs"])  # the schema has them, too
    PROJECT.write_text(project(), encoding="utf-8")
    VALUES_SCHEMA.write_text(values_schema(), encoding="utf-8")
    DASHBOARD.write_text(dashboard(), encoding="utf-8")
    RULES.write_text(rules_manifest(), encoding="utf-8")
    INSTALL.write_text(install_manifest(), encoding="utf-8")
    REPORT_SCHEMA.write_text(report_schema(), encoding="utf-8")
    SETTINGS.write_text(settings_page(), encoding="utf-8")
    for language, page in FINDINGS.items():
        page.write_text(findings_page(language), encoding="utf-8")
    for language, page in COMMANDS.items():
        page.write_text(commands_page(language), encoding="utf-8")
        READMES[language].write_text(readme(language), encoding="utf-8")
    INCIDENTS.write_text(incidents_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
