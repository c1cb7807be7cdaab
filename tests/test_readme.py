"""README.md and docs/ tell the truth: commands print what they show, and every code, setting and verb is listed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bot.changes.kinds import KINDS, VERBS
from bot.settings.schema import Settings
from bot.texts import LANGUAGES, Language
from playbooks.own.discovery import find
from playbooks.playbook import load
from tests.finding_codes import finding_codes, impact_codes
from tests.update_docs import (
    CODES,
    COMMANDS,
    DOCS,
    FINDINGS,
    READMES,
    REPORT_SCHEMA,
    SETTINGS,
    codes_module,
    commands_page,
    findings_page,
    readme,
    report_schema,
    rows,
    settings_page,
)

pytestmark = pytest.mark.source

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("zh/*.md")]
}
README = PAGES["README.md"]
CHINESE = {
    "README.md": "README.zh.md",
    "docs/install.md": "docs/zh/install.md",
    "docs/commands.md": "docs/zh/commands.md",
    "docs/findings.md": "docs/zh/findings.md",
}
"""The pages for users, with their Chinese twins."""
NEW_PLAYBOOK = "docs/writing-a-playbook.md"
CONSOLE = re.compile(r"```console\n\$ (hami-bot .*?)\n(.*?)```", re.DOTALL)
SHOWN = sorted({shown for name, text in PAGES.items() if name != NEW_PLAYBOOK for shown in CONSOLE.findall(text)})
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
ONCALL = {"channel": "C0123ABCD", "token": "secret"}

pages = pytest.mark.parametrize("page", sorted(PAGES))


def run(command: str, folder: Path) -> str:
    """What the command prints when it is run in the folder, with the code that the folder holds."""
    words = [sys.executable, "-m", "bot", *shlex.split(command)[1:]]
    environment = os.environ | {"PYTHONPATH": str(folder)}  # noqa: TID251  # the subprocess's
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    return done.stdout + done.stderr


def agrees(printed: str, shown: str) -> bool:
    """Whether that is what is shown; a line with nothing but `…` stands for any lines."""
    pattern = ".*?\n".join(re.escape(part) for part in shown.split("…\n"))
    return bool(re.fullmatch(pattern + ".*" if shown.endswith("…\n") else pattern, printed, re.DOTALL))


def listed(page: str, heading: str) -> set[str]:
    """The names in the first column of the table with this heading."""
    table = PAGES[page].partition(f"{heading}\n")[2].splitlines()
    body = table[1 : next((number for number, line in enumerate(table) if not line.startswith("|")), None)]
    return {name for line in body for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])}


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


@pytest.mark.process
@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_docs_show(command: str, shown: str) -> None:
    printed = run(command, ROOT)
    assert agrees(printed, shown), printed


@pytest.mark.process
def test_the_example_of_a_playbook_works_as_it_is_written(tmp_path: Path) -> None:
    for folder in ("bot", "handlers", "playbooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "taints"))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    text = PAGES[NEW_PLAYBOOK]
    package = tmp_path / "playbooks" / "taints"
    package.mkdir()
    (package / "__init__.py").touch()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (package / "playbook.py").write_text(code, encoding="utf-8")
    (texts,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    with (tmp_path / "bot" / "texts" / "answers.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{texts}")
    for command, shown in CONSOLE.findall(text):
        printed = run(command, tmp_path)
        assert agrees(printed, shown), printed


def test_the_table_of_findings_has_exactly_the_codes_that_the_code_makes() -> None:
    codes = finding_codes()
    assert len(codes) > 120
    assert listed("docs/findings.md", "| code | meaning | proof | usual fix |") == codes
    for language, page in FINDINGS.items():
        assert page.read_text(encoding="utf-8") == findings_page(language), "run python -m tests.update_docs"


def test_the_registry_of_codes_is_what_the_sections_of_their_texts_say() -> None:
    assert CODES.read_text(encoding="utf-8") == codes_module(), "run python -m tests.update_docs"


def test_the_table_of_what_a_change_causes_has_exactly_the_codes_that_the_code_makes() -> None:
    assert listed("docs/changes.md", "| in `change.blast_radius` | meaning |") == impact_codes()


def test_the_page_of_settings_is_what_the_schema_says() -> None:
    assert SETTINGS.read_text(encoding="utf-8") == settings_page(), "run python -m tests.update_docs"


def test_the_schema_of_a_report_is_as_the_model_says() -> None:
    assert REPORT_SCHEMA.read_text(encoding="utf-8") == report_schema(), "run python -m tests.update_docs"
    assert len({row.key for row in rows()}) > 60


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tables_of_commands_are_what_their_one_source_says(language: Language) -> None:
    assert COMMANDS[language].read_text(encoding="utf-8") == commands_page(language), "run python -m tests.update_docs"
    assert READMES[language].read_text(encoding="utf-8") == readme(language), "run python -m tests.update_docs"


@pytest.mark.parametrize("page", ["docs/settings.md", "docs/oncall.md"])
def test_the_settings_in_an_example_are_valid(page: str) -> None:
    examples = [yaml.safe_load(text.replace("…", "x")) for text in YAML.findall(PAGES[page])]
    settings = [example for example in examples if set(example) <= set(Settings.model_fields)]
    assert settings
    for setting in settings:
        Settings(**(setting | ({"oncall": ONCALL | setting["oncall"]} if "oncall" in setting else {})))


PAGES_OF_VERBS = ("docs/commands.md", "docs/zh/commands.md")


@pytest.mark.parametrize("page", PAGES_OF_VERBS)
@pytest.mark.sampled(len(PAGES_OF_VERBS))
def test_every_verb_is_in_the_docs(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [verb for verb in load() if f"`hami-bot {verb}" not in text] == []


def test_an_example_of_a_verb_begins_with_it() -> None:
    assert [verb for verb in load() if not find(verb).example.startswith(verb)] == []


@pytest.mark.parametrize("page", ["docs/commands.md", "docs/changes.md", "docs/zh/commands.md"])
@pytest.mark.sampled(3)
def test_every_flag_that_can_be_changed_for_a_while_is_in_the_docs(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [word for word in (*VERBS, *(kind.flag.shown for kind in KINDS.values())) if word not in text] == []


@pages
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(str(target.resolve().relative_to(ROOT))), link


def test_the_readme_leads_to_every_page() -> None:
    chinese = {name for name in PAGES if name.startswith("docs/zh/")}
    assert {name for name in PAGES if f"]({name})" not in README} - chinese == {"README.md"}
    assert {name for name in chinese if f"]({name})" not in PAGES["README.zh.md"]} == set()


# -------------------------------------------------------------------------------------------- Chinese twins


def skeleton(text: str) -> list[str]:
    """What a page and its twin share: the levels of headings, kinds of lines, rows of tables and their code."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found: list[str] = []
    for line in prose.splitlines():
        if heading := re.match(r"#+ ", line):
            found.append(heading[0])
        elif line.startswith("|"):
            found.append(f"| {' '.join(sorted(re.findall(r'`[^`]+`', line.split(' | ')[0])))}")
        elif re.match(r"\d+\. ", line):
            found.append("step")
    return found


def typed(text: str) -> list[str]:
    """The commands of a page: of its indented lines and its examples, without comments and `--lang zh`."""
    lines = re.findall(
        r"^(?: {4,}|\$ )(\S.*)$", re.sub(r"```(?!console).*?```", "", text, flags=re.DOTALL), re.MULTILINE
    )
    commands = (re.sub(r"\s+# .*|\\$| --lang zh\b", "", line).strip() for line in lines)
    return [
        command
        for command in commands
        if re.match(r"(hami-bot|kubectl|helm|docker|pip|python3|export|make)\b", command)
    ]


@pytest.mark.parametrize(("page", "twin"), CHINESE.items())
def test_a_page_for_users_and_its_chinese_twin_have_the_same_parts(page: str, twin: str) -> None:
    english, chinese = PAGES[page], PAGES[twin]
    if page == "README.md":  # the twin lists the pages that exist in Chinese
        english, chinese = (
            text.partition(f"\n## {name}\n")[0] for text, name in ((english, "Documentation"), (chinese, "文档"))
        )
    assert skeleton(chinese) == skeleton(english)
    assert [line for line in typed(chinese) if "HAMI_BOT_LANGUAGE" not in line] == typed(english)


@pytest.mark.parametrize(("page", "twin"), CHINESE.items())
def test_a_chinese_page_links_to_chinese_pages_where_there_are_any(page: str, twin: str) -> None:
    names = {Path(page).name for page in CHINESE if page.startswith("docs/")}
    links = re.findall(r"\]\(([^)\s#]+)", PAGES[twin])
    assert [
        link for link in links if Path(link).name in names and "docs/zh" not in str((ROOT / twin).parent / link)
    ] == []
