"""What is released: a source distribution and a wheel that need no checkout, and are the same whoever builds them."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.project import PROJECT, ROOT, committed_files

pytestmark = pytest.mark.process  # each process that runs one builds the wheel

SCENARIO = "ml/s03-card-insufficient-memory"
PACKAGES = PROJECT["tool"]["importlinter"]["root_packages"]
TAG = "1.2.3"
TOLD = {"SETUPTOOLS_SCM_PRETEND_VERSION": TAG, "SOURCE_DATE_EPOCH": "1795237200"}
"""What a build is told, as the release workflow does it."""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
BUILT_OF = (".gitignore", "pyproject.toml", *PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])


def build(checkout: Path, folder: Path, **environment: str) -> tuple[Path, Path]:
    """The source distribution and the wheel that are built of the checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    given = {**os.environ, **environment}  # noqa: TID251  # no setting of the bot
    subprocess.run(command, cwd=checkout, env=given, check=True, capture_output=True)
    [source], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


def copy(folder: Path) -> Path:
    """What is built of, without git."""
    wanted = {part.removeprefix("/") for part in BUILT_OF}
    for path in committed_files():
        if path.relative_to(ROOT).parts[0] not in wanted:
            continue
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(ROOT, tmp_path_factory.mktemp("built"), **TOLD)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel, and from this one's only what the wheel depends on."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*command, "install", "--quiet", "--no-deps", "--no-index", str(built[1])], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with nothing but a recording in it, which is also the home."""
    with tarfile.open(ROOT / "tests" / "cases" / "hami-2.10" / "recording.tar.gz") as archive:
        archive.extractall(tmp_path / "recording", filter="data")
    return tmp_path


def run(program: Path, *words: str, folder: Path) -> str:
    environment = {"HOME": str(folder), "PATH": "/nowhere"}
    done = subprocess.run([program, *words], check=False, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_alone_explains_a_pod_of_a_recording(installed: Path, here: Path) -> None:
    answer = run(installed / "hami-bot", "why", SCENARIO, "--recording", "recording", folder=here)
    assert answer.startswith("WARNING  No GPU of")
    chinese = run(installed / "hami-bot", "why", SCENARIO, "--recording", "recording", "--lang", "zh", folder=here)
    assert "s03-card-insufficient-memory" in chinese
    assert chinese != answer


def test_kubectl_finds_its_plugin_beside_the_wheels_program(installed: Path, here: Path) -> None:
    words = ("why", SCENARIO, "--recording", "recording")
    plugin, ours = (run(installed / program, *words, folder=here) for program in ("kubectl-hami", "hami-bot"))
    assert plugin == ours


def test_the_wheel_alone_knows_the_demo_and_its_recording(installed: Path, here: Path) -> None:
    assert "--port" in run(installed / "hami-bot", "demo", "--help", folder=here)
    code = "import sandbox.demo as demo; assert demo.RECORDING.is_file(); print(demo.__file__)"
    place = run(installed / "python", "-I", "-c", code, folder=here)
    assert Path(place.strip()).is_relative_to(installed.parent)


def test_the_wheel_alone_runs_the_revisions(installed: Path, here: Path) -> None:
    code = """
from sqlalchemy import create_engine
from bot.store.migrations import NEWEST, revision, upgrade
with create_engine("sqlite:///state.db").begin() as connection:
    upgrade(connection)
    assert revision(connection) == NEWEST
"""
    run(installed / "python", "-I", "-c", code, folder=here)


def test_the_version_is_the_one_that_was_tagged(installed: Path, here: Path) -> None:
    assert run(installed / "hami-bot", "version", folder=here) == f"hami-bot {TAG}\n"


def test_the_wheel_holds_every_package_and_text(built: tuple[Path, Path]) -> None:
    wheel = zipfile.ZipFile(built[1])
    [metadata] = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA")]
    assert "License-Expression: Apache-2.0\nLicense-File: LICENSE\n" in metadata
    wanted = {str(path.relative_to(ROOT)) for path in committed_files()}
    assert {path for path in wanted if path.split("/")[0] in PACKAGES} - set(wheel.namelist()) == set()


def test_the_wheel_holds_nothing_but_packages_and_its_metadata(built: tuple[Path, Path]) -> None:
    folders = {name.split("/")[0] for name in zipfile.ZipFile(built[1]).namelist()}
    assert folders == {*PACKAGES, f"hami_bot-{TAG}.dist-info"}


def test_two_builds_are_equal_byte_for_byte(built: tuple[Path, Path], tmp_path: Path) -> None:
    other = copy(tmp_path / "other place")
    again = build(other, tmp_path / "dist", **TOLD)
    assert [path.name for path in again] == [path.name for path in built]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built]


def test_the_source_distribution_makes_the_same_wheel_of_the_same_version(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    _, wheel = build(tmp_path / f"hami_bot-{TAG}", tmp_path / "dist", SOURCE_DATE_EPOCH=TOLD["SOURCE_DATE_EPOCH"])
    assert wheel.name == built[1].name
    assert wheel.read_bytes() == built[1].read_bytes()


def test_a_copy_without_git_is_built_as_an_unreleased_version(tmp_path: Path) -> None:
    _, wheel = build(copy(tmp_path / "copy"), tmp_path / "dist")
    assert wheel.name == f"hami_bot-{PROJECT['tool']['hatch']['version']['fallback-version']}-py3-none-any.whl"


@pytest.fixture
def tools() -> Path:
    """The `bin` of the environment for releases."""
    if not (ROOT / ".venv-release" / "installed").exists():
        pytest.skip("make .venv-release/installed makes it; .ci/run does")
    return ROOT / ".venv-release" / "bin"


@pytest.mark.usefixtures("tools")
def test_the_bill_of_materials_names_each_locked_package_with_its_hashes(tmp_path: Path) -> None:
    ready = ["-o", ".venv/installed", "-o", ".venv-release/installed"]
    command = ["make", *ready, "sbom", f"BIN={Path(sys.executable).parent}", f"DIST={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    bill = json.loads((tmp_path / "sbom.cdx.json").read_bytes())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "hami-bot"
    assert bill["metadata"]["component"]["version"]
    lock = (ROOT / "requirements.lock").read_text()
    locked = re.findall(r"^([a-z0-9-]+)==([\w.]+)", lock, re.MULTILINE)
    assert sorted((component["name"], component["version"]) for component in bill["components"]) == sorted(locked)
    assert {component["purl"] for component in bill["components"]} == {
        f"pkg:pypi/{name}@{version}" for name, version in locked
    }
    hashes = {
        entry["content"]
        for component in bill["components"]
        for reference in component["externalReferences"]
        for entry in reference["hashes"]
    }
    assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", lock))


def test_the_workflows_are_as_their_published_schema_says(tools: Path) -> None:
    command = [tools / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_renovates_settings_are_as_its_published_schema_says(tools: Path) -> None:
    command = [tools / "check-jsonschema", "--builtin-schema", "vendor.renovate", ROOT / ".github" / "renovate.json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_gives_a_job_no_more_than_it_names_and_ends_by_itself(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_uses_actions_by_their_commit_with_the_version_beside_it(path: Path) -> None:
    """A tag can be moved to other code; a commit cannot."""
    used = re.findall(r"\buses: (.*)$", path.read_text(), re.MULTILINE)
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []


def test_an_action_has_the_same_commit_in_every_workflow() -> None:
    used = {action for path in WORKFLOWS for action in re.findall(r"\buses: (.*)$", path.read_text(), re.MULTILINE)}
    assert len(used) == len({action.split("@")[0] for action in used})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_checkout_leaves_no_credentials_for_the_steps_after_it(path: Path) -> None:
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert [step for step in checkouts if step.get("with", {}).get("persist-credentials") is not False] == []


def test_ci_tests_the_python_of_the_image_and_the_lowest_that_is_supported() -> None:
    [image] = set(re.findall(r"^FROM python:([\d.]+)-slim", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    lowest = PROJECT["project"]["requires-python"].removeprefix(">=")
    check = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())["jobs"]["check"]
    assert check["strategy"]["matrix"] == {"python": [lowest, image]}
    said = re.findall(r'python-version: "([\d.]+)"', "".join(path.read_text() for path in WORKFLOWS))
    assert set(said) == {image}


def test_the_base_image_has_a_digest_or_renovate_is_told_to_give_it_one() -> None:
    renovate = json.loads((ROOT / ".github" / "renovate.json").read_text())
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(set(bases)) == 1
    assert "@sha256:" in bases[0] or "docker:pinDigests" in renovate["extends"]
    assert {"dockerfile", "github-actions"} <= set(renovate["enabledManagers"])


def test_only_signing_and_publishing_get_an_identity_and_no_secret_of_ours_is_used() -> None:
    text = RELEASE.read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})} == {"image", "publish"}
    assert set(re.findall(r"secrets\.(\w+)", text)) == {"GITHUB_TOKEN"}
    assert {"check", "build", "image"} <= set(jobs["publish"]["needs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_command_of_a_workflow_is_made_of_an_expression(path: Path) -> None:
    """Whoever names a branch or a tag could write shell commands into it."""
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_the_image_of_a_released_chart_is_the_released_one() -> None:
    """The workflow writes it over this line."""
    assert r"s|^  repository: hami-bot$|" in RELEASE.read_text()
    assert "  repository: hami-bot\n" in (ROOT / "deploy" / "chart" / "values.yaml").read_text()


def test_the_changelog_has_a_heading_for_what_comes_next() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
