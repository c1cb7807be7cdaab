"""The answer to a profile, within Slack's limits and with its files; what is audited of taking it."""

import asyncio
import contextlib
import io
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from bot.errors import SourceError
from bot.kube.cluster import PodGet
from bot.pprof.decode import read
from bot.pprof.top import Options, top
from bot.report import as_json, in_words
from bot.store import StoreError, open_store
from bot.texts import LANGUAGES, Language, Texts
from handlers.parsing.question import Question
from handlers.profiles.captures import answer_capture, audited
from playbooks.profile.fetch import FetchedProfile, ProfileScene, ProfileSnapshot
from playbooks.profile.playbook import diagnose
from playbooks.profile.request import Request, read_target
from tests.pprof.build import Writer
from tests.pprof.cases import PROFILES
from tests.slack.render import assert_fits, assert_inert

WANTED = PodGet("hami-system", "sched-0", "https", 443, "debug/pprof/profile")
NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
SMALL = sorted(path for path in PROFILES.iterdir() if path.stat().st_size < 20_000)


CPU = Request("cpu", 30)


def snapshot(content: bytes, request: Request = CPU) -> ProfileSnapshot:
    taken = FetchedProfile(WANTED, content, "2.10.0", leads=True)
    return ProfileSnapshot(request, "lab", NOW, ProfileScene(None, taken, ()))


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_any_profile_makes_a_message_that_slack_takes_and_files_that_open(path: Path) -> None:
    content = path.read_bytes()
    answer = answer_capture(snapshot(content), "profile cpu", Texts("en"))
    assert_fits(answer.message)
    files = {Path(file.name).suffix: file.content for file in answer.message.files}
    assert files[".gz"] == content
    assert Image.open(io.BytesIO(files[".png"])).width == 1600
    assert answer.kept
    assert answer.kept.size == len(content)
    assert answer.kept.id in answer.message.files[0].name


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_report_survives_json_and_has_ten_rows(language: Language) -> None:
    report = in_words(diagnose(snapshot((PROFILES / "before.cpu.pb.gz").read_bytes())), Texts(language))
    assert msgspec.json.decode(as_json(report), type=type(report)) == report
    assert len(report.tables[0].rows) == 10
    assert report.findings[-1].code == "profile-taken"
    assert "leads" in report.verdict or "leader" in report.verdict
    assert len(report.verdict) <= 140


@pytest.mark.parametrize(
    ("name", "request_", "said"),
    [
        ("hami.allocs-delta-5s", Request("allocs", 5), "Allocations of sched-0 (it leads): 44.78MB in 5 s."),
        ("before.heap.delta", Request("heap", 3), "Allocations of sched-0 (it leads): 849.47MB in 3 s."),
        ("meter.v1.allocs", Request("allocs", 4), "Allocations of sched-0 (it leads): 70.36MB in 4 s."),
        ("before.allocs", Request("allocs", 0), "Allocations of sched-0 (it leads): 4.70GB."),
        ("before.heap", Request("heap", 0), "Memory in use of sched-0 (it leads): 16.25MB."),
    ],
)
def test_what_a_heap_gives_in_a_time_is_what_was_allocated(name: str, request_: Request, said: str) -> None:
    """Go's difference of two heaps names no type, and pprof takes the memory in use: less where some was freed."""
    content = (PROFILES / f"{name}.pb.gz").read_bytes()
    answer = answer_capture(snapshot(content, request_), "profile allocs", Texts("en"))
    report = in_words(diagnose(snapshot(content, request_)), Texts("en"))
    kind = "inuse_space" if "in use" in said else "alloc_space"
    assert report.verdict == said
    assert not [row for row in report.tables[0].rows if row[0].startswith("-")]
    assert {word for finding in report.findings for proof in finding.evidence for word in proof.command.split()} & {
        f"-sample_index={other}" for other in ("alloc_space", "inuse_space")
    } == {f"-sample_index={kind}"}
    table = next(file for file in answer.message.files if file.name.endswith(".top.txt"))
    assert table.content.decode() == top(read(content), options=Options(sample_index=kind))
    assert ("-sample_index=alloc_space" in table.title) is (name != "before.allocs" and kind == "alloc_space")


HOSTILE = [
    *("<!channel> *b* `x`", "a\nb\n   1ms 1% 1%  1ms 1%  fake", "</script><b>", "\u202edlrow", "m" * 1_000_000),
    *(b"\xff\xfe", ""),
]


def test_hostile_names_can_neither_act_nor_break_the_answer() -> None:
    writer = Writer("samples", "cpu")
    for number, name in enumerate(HOSTILE, 1):
        writer.function(number, name).location(number, number).sample([number], 1, 100)
    answer = answer_capture(snapshot(writer.bytes()), "profile cpu", Texts("en"))
    assert_fits(answer.message)
    assert_inert(answer.message)
    page = next(file for file in answer.message.files if file.name.endswith(".html")).content.decode()
    assert page.count("<script>") == 1


ASKED = Question("profile cpu 5s", "U0ADA00001", "C0GPUONC01", 0.0)
HEAP = Request("heap", 0, read_target("ml/api-0:6060"))


def taken(folder: Path, *, lost_from: str, error: Exception | None = None) -> list[str]:
    """What was done where the store loses its table `before` or `while` the profile is taken, which may fail."""
    done = list[str]()

    def lose() -> None:
        with contextlib.closing(sqlite3.connect(folder / "bot.db")) as database:
            database.execute("DROP TABLE audit")

    async def take() -> None:
        async with open_store(f"sqlite:///{folder / 'bot.db'}") as store:
            if lost_from == "before":
                lose()
            async with audited(store.audit, ASKED, "prod", HEAP):
                done.append("begun")
                lose()
                if error:
                    raise error
            done.append("answered")

    asyncio.run(take())
    return done


def test_one_that_was_taken_is_answered_though_the_log_is_lost_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert taken(tmp_path, lost_from="while") == ["begun", "answered"]
    assert "U0ADA00001's heap profile of prod:http://ml/api-0:6060 was taken" in caplog.text


def test_why_none_could_be_taken_is_told_though_the_log_is_lost_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the pod is gone"):
        taken(tmp_path, lost_from="while", error=SourceError("the pod is gone"))


def test_none_is_taken_that_cannot_be_written_down_before(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="writing the audit log"):
        taken(tmp_path, lost_from="before")
