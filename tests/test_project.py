"""The files that install, check and ship the project agree with each other and name nothing of where they were made."""

import ast
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import grimp
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from playbooks.playbook import load
from sandbox.demo import POD, RECORDING
from tests import update_docs
from tests.project import LOCKS, PROJECT, ROOT, committed_files, nodes_of

pytestmark = pytest.mark.source

DIRECT = {
    "requirements.lock": [
        *PROJECT["project"]["dependencies"],
        *itertools.chain(*PROJECT["project"]["optional-dependencies"].values()),
    ],
    "requirements-build.lock": [*PROJECT["dependency-groups"]["build"], *PROJECT["build-system"]["requires"]],
    "requirements-dev.lock": PROJECT["dependency-groups"]["dev"],
    "requirements-release.lock": PROJECT["dependency-groups"]["release"],
}
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[\w.]+)(?P<marker> ; [^\\]+)? \\")
Node = TypeVar("Node", bound=ast.stmt | ast.expr)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def pins(lock: str) -> dict[str, str]:
    found = map(PIN.fullmatch, (ROOT / lock).read_text().splitlines())
    return {entry["name"]: entry["version"] for entry in found if entry}


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    for path in committed_files():
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [f"{path.relative_to(ROOT)}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_the_import_contract_of_playbooks_names_every_verb() -> None:
    assert update_docs.project() == update_docs.PROJECT.read_text(encoding="utf-8"), "run python -m tests.update_docs"


def ours(wanted: type[Node]) -> Iterator[tuple[str, Node]]:
    """The places, `FILE:LINE`, and nodes of one type in the product's code."""
    for path in itertools.chain(*((ROOT / folder).rglob("*.py") for folder in ("bot", "handlers", "playbooks"))):
        for node in nodes_of(path):
            if isinstance(node, wanted):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_a_class_name_means_one_thing_but_for_the_two_that_every_playbook_has() -> None:
    places: dict[str, list[str]] = {}
    for place, node in ours(ast.ClassDef):
        places.setdefault(node.name, []).append(place)
    several = {name: found for name, found in places.items() if len(found) > 1}
    assert several.keys() <= {"Request", "Snapshot"}, several


def test_a_record_of_more_than_six_fields_is_a_struct_whose_fields_have_no_places() -> None:
    tuples = ((place, node) for place, node in ours(ast.ClassDef) if "NamedTuple" in map(ast.unparse, node.bases))
    assert [place for place, node in tuples if sum(isinstance(line, ast.AnnAssign) for line in node.body) > 6] == []


def test_a_call_names_its_arguments_where_there_are_more_than_six() -> None:
    """The words of a kubectl command and the columns of a table of the store are one argument each."""
    many = ((place, ast.unparse(node.func)) for place, node in ours(ast.Call) if len(node.args) > 6)
    assert [place for place, called in many if called not in ("kubectl", "quotes.kubectl", "Table")] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_is_pinned_with_hashes(lock: str) -> None:
    lines = (ROOT / lock).read_text().splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        assert PIN.fullmatch(line) or HASH.fullmatch(line), line
        assert line.endswith("\\") == following.startswith("    --hash="), line


@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_is_in_its_lock_at_a_version_that_it_allows(lock: str) -> None:
    pinned = pins(lock)
    for requirement in map(Requirement, DIRECT[lock]):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_packages_that_several_locks_hold_are_at_one_version() -> None:
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, version in pins(lock).items():
            versions.setdefault(name, set()).add(version)
    assert [name for name, found in versions.items() if len(found) > 1] == []


def test_no_committed_file_names_a_package_registry() -> None:
    # Written in pieces, so that this file does not name one itself.
    hosts = ("pypi" + r"\.org", "pythonhosted" + r"\.org", "registry" + r"\.npmjs", "deb" + r"\.debian\.org")
    assert lines_that_match(re.compile("|".join(hosts))) == []


def test_no_committed_file_names_a_folder_of_the_machine_it_was_made_on() -> None:
    folders = "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me/[a-z]", "Us" + "ers/[a-z]"))
    assert lines_that_match(re.compile(rf"(?<![\w.$}}/-])/({folders})/")) == []


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "soak", "lock", "clean"])
def test_the_makefile_has_the_target(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_demo_explains_a_pod_that_the_recording_holds() -> None:
    scenarios = json.loads((ROOT / "tests" / "cases" / "hami-2.10" / "scenarios.json").read_text())
    assert POD in {scenario["pod"] for scenario in scenarios}
    assert RECORDING.samefile(ROOT / "tests" / "cases" / "hami-2.10" / "recording.tar.gz")


def test_ci_runs_the_tests_and_stops_at_the_first_failure() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail\n" in script.read_text()
    assert "\nmake test" in script.read_text()


def test_the_workflow_runs_what_ci_runs() -> None:
    (job,) = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_who_reports_a_wrong_answer_is_asked_for_a_recording() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "wrong-answer.yml").read_text())
    fields = {field["id"]: field for field in form["body"] if "id" in field}
    assert "hami-bot record -o " in fields["recording"]["attributes"]["description"]
    assert fields["recording"]["validations"]["required"]


def test_before_a_commit_runs_the_ruff_that_the_lock_pins() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    assert all(hook["entry"].startswith(".venv/bin/ruff ") for hook in repository["hooks"])


def test_the_project_says_its_licence() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "COPY pyproject.toml README.md LICENSE ./" in (ROOT / "Dockerfile").read_text()
    assert "!LICENSE\n" in (ROOT / ".dockerignore").read_text()


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_what_a_contributor_reads_names_only_files_and_targets_that_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    paths = re.findall(r"`([\w./-]+/[\w./-]*|[A-Z]{6,}(?:\.md)?|pyproject\.toml)`", text)
    assert [path for path in paths if "VERSION" not in path and "VERB" not in path and not (ROOT / path).exists()] == []
    targets = re.findall(r"^    make ([a-z-]+)|`make ([a-z-]+)`", text, re.MULTILINE)
    known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {one or other for one, other in targets} <= set(known)


def test_contributors_learn_how_a_case_is_added() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert "python -m tests.update_cases" in text
    assert "tests/cases/hami-VERSION" in text


def test_every_playbook_is_kept_apart_from_the_others() -> None:
    contracts = {contract["name"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
    pattern = contracts["No playbook knows another"]["modules"]
    assert pattern == ["playbooks.*.playbook"]
    assert {f"playbooks.{value.split('.')[1]}.playbook" for value in load().values()} == set(load().values())


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("bot", "handlers", "playbooks", "sandbox")
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while free := {module for module, imports in left.items() if not imports & left.keys()}:
        left = {module: imports for module, imports in left.items() if module not in free}
    assert left == {}


def test_the_image_is_built_of_locked_packages_and_runs_as_nobody() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases), bases
    for command in re.findall(r"pip [^&\n]*install [^&\n]*", text):
        assert "--require-hashes -r requirements" in command or "--no-deps --no-index" in command, command
    final = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", final, re.MULTILINE)
    assert 'ENTRYPOINT ["hami-bot"]' in final
    assert "RUN" not in final


PAGES = sorted(path for pattern in ("*.md", "docs/*.md", "docs/zh/*.md") for path in ROOT.glob(pattern))
FOLDERS = "bot|handlers|playbooks|sandbox|tests|benchmarks"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_module_of_ours_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*[\w/]", text)
    dotted = re.findall(rf"(?<![\w./-])(?:{FOLDERS})(?:\.[a-z_]\w*){{2,}}", text)
    made_up = re.compile(r"[A-Z]{4,}|taints|tests/cases/hami$")  # what a reader fills in, and the guide's example
    gone = [name for name in files if not (made_up.search(name) or (ROOT / name).exists())]
    assert gone + [name for name in dotted if not is_ours(name)] == []


def is_ours(dotted: str) -> bool:
    """Whether that is a module, or a name in one."""
    path = ROOT / dotted.replace(".", "/")
    around = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    is_named = around.is_file() and re.search(rf"\b{path.name}\b", around.read_text(encoding="utf-8"))
    return path.is_dir() or path.with_suffix(".py").is_file() or bool(is_named)
