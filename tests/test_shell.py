"""The console command as a person uses it: exit codes, errors, and the same bytes everywhere."""

import asyncio
import contextlib
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from sandbox.apiserver import Fault
from tests.cases_support import ask
from tests.shell import POD, RECORDING, ROOT, hami_bot, process, served

pytestmark = pytest.mark.process


def assert_one_clear_error(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("hami-bot: ")
    assert "Traceback" not in done.stderr
    assert "a bug" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_json_is_the_report_of_the_playbook() -> None:
    done = hami_bot("why", POD, "--recording", RECORDING, "-o", "json")
    assert done.returncode == 0
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["findings"][0]["code"] == "card-insufficient-memory"
    assert report["schema"] == "hami-bot.report/v1"


@pytest.mark.parametrize("env", [{"TZ": "Asia/Shanghai"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONHASHSEED": "7"}])
def test_the_same_recording_gives_the_same_bytes_whatever_zone_locale_or_hash_seed(env: dict[str, str]) -> None:
    words = ("why", "ml/s06-wrong-gputype", "--recording", RECORDING, "-o", "json", "--lang", "zh")
    assert process(*words, env=env).stdout == process(*words, env={"TZ": "America/Los_Angeles"}).stdout


def test_options_may_stand_before_the_verb() -> None:
    before = hami_bot("--recording", RECORDING, "-o", "json", "why", POD)
    after = hami_bot("why", POD, "--recording", RECORDING, "-o", "json")
    assert before.stdout == after.stdout != ""


def test_a_command_to_go_on_with_names_the_same_cluster() -> None:
    typed = hami_bot("why", "ml/s05-exclusive-cores100", "--all", "--recording", RECORDING)
    assert f"hami-bot gpus --node gpu-node-13 --recording {RECORDING}\n" in typed.stdout


def test_a_recording_is_not_proposed_to_be_changed() -> None:
    assert "verbosity 5" not in hami_bot("logs", "ml/s09-node-unregistered", "--recording", RECORDING).stdout


def test_a_command_of_kubectl_names_the_same_context(tmp_path: Path) -> None:
    with served(tmp_path) as kubeconfig:
        typed = hami_bot("why", POD, "--kubeconfig", str(kubeconfig))
    assert f"kubectl --kubeconfig {kubeconfig} -n ml get pod" in typed.stdout


def test_the_version_is_told_either_way() -> None:
    assert hami_bot("--version").stdout == hami_bot("version").stdout


def test_the_language_changes_the_prose_and_neither_codes_nor_quotes() -> None:
    english, chinese = (ask(Path(RECORDING), POD, language=language) for language in ("en", "zh"))
    assert english.verdict != chinese.verdict
    assert [finding.code for finding in english.findings] == [finding.code for finding in chinese.findings]
    assert [finding.evidence for finding in english.findings] == [finding.evidence for finding in chinese.findings]


@pytest.mark.parametrize("lang", [("--lang", "zh"), ("--lang=zh",)])
def test_a_mistake_is_told_in_the_language_that_is_asked_for(lang: tuple[str, ...]) -> None:
    assert_one_clear_error(hami_bot("wyh", POD, *lang), 2, "\n您是想用 why 吗")
    assert_one_clear_error(hami_bot(*lang, "why", POD, "--cluster", "prdo"), 2, "'prdo'", "没有集群")
    assert_one_clear_error(hami_bot("why", *lang), 2, "why 需要 POD|KIND/NAME", "hami-bot why ml/trainer-0")
    assert_one_clear_error(hami_bot("fit", "2x16Gi", "--cores", "200", *lang), 2, "'--cores' 的值无效：200 不在范围")


def test_plain_text_has_no_escape_codes_when_it_is_piped() -> None:
    assert "\x1b" not in hami_bot("why", POD, "--recording", RECORDING).stdout


def test_markdown_begins_with_a_heading() -> None:
    assert hami_bot("why", POD, "--recording", RECORDING, "-o", "markdown").stdout.startswith("#")


def test_help_explains_a_finding_code() -> None:
    told = hami_bot("help", "node-lock-dangling").stdout
    assert told.startswith("node-lock-dangling\nMeaning: ")
    assert "Usual fix: Remove the lock's annotation" in told
    assert "opens a triage thread" in told


def test_help_lists_every_verb_and_explains_one() -> None:
    assert all(verb in hami_bot("help").stdout for verb in ("why", "fit", "record", "version"))
    assert "Example: hami-bot why ml/trainer-0" in hami_bot("help", "why").stdout


def test_help_is_the_same_whichever_cluster_is_named_before_it() -> None:
    before = hami_bot("--recording", "x", "--lang", "zh", "help", "why").stdout
    assert before == hami_bot("help", "why", "--lang", "zh").stdout != ""


def test_a_verbs_help_is_in_the_language_of_its_words_or_else_of_the_settings() -> None:
    chinese, settings = hami_bot("help", "why", "--lang", "zh").stdout, {"HAMI_BOT_LANGUAGE": "zh"}
    assert hami_bot("why", "--help", env=settings).stdout == hami_bot("--lang=zh", "why", "-h").stdout == chinese
    assert hami_bot("profile", "top", "-help", env=settings).stdout.startswith("用法：")
    assert hami_bot(env=settings).stdout.startswith("用法：hami-bot [OPTIONS]")


def test_a_typo_in_the_verb_gets_the_nearest_one_and_an_example() -> None:
    assert_one_clear_error(hami_bot("wyh", POD), 2, "'wyh'", "hami-bot why ml/trainer-0")


@pytest.mark.parametrize(
    "words",
    [
        ("why",),
        ("why", "two words"),
        ("why", POD, "-n", "other"),
        ("why", POD, "--nonsense"),
        ("why", POD, "-o", "yaml"),
        ("why", POD, "--lang", "fr"),
        ("why", POD, "--cluster", "unknown"),
        ("why", POD, "--cluster", "unknown", "--recording", RECORDING),
        ("why", POD, "--recording", RECORDING, "--context", "prod"),
        ("why", POD, "--recording", RECORDING, "--kubeconfig", "/nonexistent"),
        ("fit", "--recording", RECORDING),
        ("fit", "-f", "/nonexistent/pod.yaml", "--recording", RECORDING),
        ("record",),
        ("record", "-o", "x.tar.gz", "--pod", "no-namespace"),
    ],
)
def test_a_wrong_command_is_told_with_exit_code_2(words: tuple[str, ...]) -> None:
    assert_one_clear_error(hami_bot(*words), 2)


@pytest.mark.parametrize(
    ("verb", "needs", "example"),
    [
        ("why", "POD|KIND/NAME", "hami-bot why ml/trainer-0\n"),
        ("record", "-o/--out PATH", "hami-bot record -o case.tar.gz --pod ml/trainer-0\n"),
    ],
)
def test_what_a_verb_lacks_is_named_with_an_example(verb: str, needs: str, example: str) -> None:
    done = hami_bot(verb)
    assert_one_clear_error(done, 2, f"hami-bot: {verb} needs {needs}\n", f"For example: {example}")
    assert done.stderr.endswith(f"More: hami-bot help {verb}\n")


@pytest.mark.parametrize("text", ["kind: Deployment\nmetadata: {name: x}", "a: [", "", "kind: Pod\nspec: 7"])
def test_a_manifest_that_is_no_pod_is_told_with_exit_code_2(text: str) -> None:
    assert_one_clear_error(hami_bot("fit", "-f", "-", "--recording", RECORDING, stdin=text), 2)


def test_a_pod_typo_gives_a_report_with_the_near_names() -> None:
    done = hami_bot("why", "ml/s03-card-insuficient", "--recording", RECORDING, "-o", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["findings"][0]["code"] == "not-found"
    assert "s03-card-insufficient-memory" in report["verdict"]


def test_an_empty_folder_is_no_recording(tmp_path: Path) -> None:
    assert_one_clear_error(hami_bot("why", POD, "--recording", str(tmp_path)), 3, str(tmp_path))


def test_a_truncated_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "cut.tar.gz").write_bytes(Path(RECORDING).read_bytes()[:20000])
    assert_one_clear_error(hami_bot("why", POD, "--recording", str(tmp_path / "cut.tar.gz")), 3, "cut off")


def test_a_file_of_objects_that_is_no_list_is_told(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "meta.json").write_text('{"taken_at": "2026-11-21T05:00:00Z"}')
    (tmp_path / "objects" / "pods.json").write_text('{"kind": "Pod", "metadata": {"name": "x"}}')
    assert_one_clear_error(hami_bot("why", POD, "--recording", str(tmp_path)), 3, "objects/pods.json", "kind is 'Pod'")


def test_a_file_that_is_no_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(b"not a tar"))
    assert_one_clear_error(hami_bot("why", POD, "--recording", str(tmp_path / "x.tar.gz")), 3)


def test_no_cluster_at_all_is_told() -> None:
    assert_one_clear_error(hami_bot("why", POD), 3)


def test_an_unreadable_kubeconfig_is_told(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: [")
    assert_one_clear_error(hami_bot("why", POD, "--kubeconfig", str(tmp_path / "config")), 3, str(tmp_path / "config"))


def test_a_cluster_that_is_down_is_told(tmp_path: Path) -> None:
    with served(tmp_path, faults=[Fault(".*", "refuse")]) as config:
        assert_one_clear_error(hami_bot("why", POD, "--kubeconfig", str(config)), 3, "GET /api/v1/namespaces/ml/pods/")


def test_an_expired_token_is_told(tmp_path: Path) -> None:
    with served(tmp_path, faults=[Fault(".*", "status", status=401)]) as config:
        assert_one_clear_error(hami_bot("why", POD, "--kubeconfig", str(config)), 3, "HTTP 401", "credentials")


def test_a_recording_of_a_live_cluster_answers_like_the_cluster(tmp_path: Path) -> None:
    out = tmp_path / "case.tar.gz"
    with served(tmp_path) as config:
        done = hami_bot("record", "-o", str(out), "--kubeconfig", str(config))
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    first, expected = (ask(path, POD).findings[0] for path in (out, Path(RECORDING)))
    assert (first.code, first.scope) == (expected.code, expected.scope)
    assert asyncio.run(RecordedCluster.open(out).server_version()) == "v1.36.2"


def test_settings_name_clusters_and_the_language(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(f"language: zh\nclusters:\n  lab:\n    recording: {RECORDING}\n")
    done = hami_bot("why", POD, "--cluster", "lab", "--config", str(config), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "等待" in done.stdout
    assert hami_bot("why", POD, "-o", "json", env={"HAMI_BOT_CONFIG": str(config)}).stdout == done.stdout
    assert_one_clear_error(hami_bot("fit", "--config", str(config)), 2, "fit 需要 GPU 的数量或一个清单")


def test_the_environment_counts_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(f"language: zh\nclusters:\n  lab:\n    recording: {RECORDING}\n")
    done = hami_bot("why", POD, "--config", str(config), env={"HAMI_BOT_LANGUAGE": "en"})
    assert "WARNING" in done.stdout


@pytest.mark.parametrize("text", ["langage: en", "clusters: {lab: {kubeconfg: x}}", "language: fr", "- a", "a: ["])
def test_a_wrong_settings_file_names_the_key(text: str, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(text)
    assert_one_clear_error(hami_bot("why", POD, "--config", str(config)), 2, "settings")


def test_an_unknown_setting_in_the_environment_is_an_error() -> None:
    assert_one_clear_error(hami_bot("why", POD, env={"HAMI_BOT_LANGAUGE": "en"}), 2, "HAMI_BOT_LANGAUGE")


@pytest.mark.parametrize(("language", "told"), [("en", "reading the cluster …\n"), ("zh", "正在读取集群……\n")])
def test_whatever_takes_longer_than_a_second_shows_a_line_of_progress(language: str, told: str, tmp_path: Path) -> None:
    with served(tmp_path, faults=[Fault(r"/nodes$", "hang", times=1)]) as config:
        process = subprocess.Popen(
            [sys.executable, "-m", "bot", "why", POD, "--kubeconfig", str(config), "--lang", language],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        with process:
            assert process.stderr is not None
            assert process.stderr.readline() == told
            process.kill()


def test_what_a_recording_advises_to_change_has_no_command_that_would_change_another_cluster():
    done = hami_bot("quota", "--recording", RECORDING)
    assert "Raise limits.nvidia.com/gpumem of quota quota-ns/gpu-quota" in done.stdout
    shown = [done, *(hami_bot("quota", "--recording", RECORDING, "-o", form) for form in ("slack", "markdown"))]
    for entry in shown:
        assert "patch resourcequota" not in entry.stdout
        assert "so commands that change it are left out" in " ".join(entry.stdout.split())


def test_a_pipe_is_as_wide_as_columns_says() -> None:
    words = ("quota", "--all", "--recording", RECORDING)
    assert "HAMi limit  HAMi counts" not in hami_bot(*words).stdout
    wide = hami_bot(*words, env={"COLUMNS": "220"}).stdout
    assert "HAMi limit  HAMi counts" in wide


def test_a_width_that_is_no_number_is_none() -> None:
    words = ("quota", "--recording", RECORDING)
    assert hami_bot(*words, env={"COLUMNS": "wide"}).stdout == hami_bot(*words).stdout


def test_a_verb_that_people_type_for_another_gets_that_one() -> None:
    assert "Did you mean pending?" in hami_bot("pods", "--recording", RECORDING).stderr


def test_a_cluster_name_without_settings_says_where_clusters_are_named() -> None:
    done = hami_bot("why", POD, "--cluster", "prod")
    assert_one_clear_error(done, 2, "no cluster 'prod'", "--config", "--context")


def test_a_setting_that_does_not_exist_gets_the_near_one(tmp_path: Path) -> None:
    config = tmp_path / "hami-bot.yaml"
    config.write_text("clusters:\n  prod:\n    contex: x\n")
    done = hami_bot("why", POD, "--config", str(config))
    assert_one_clear_error(done, 2, "clusters.NAME.NAME [line 3]: there is no such setting", "did you mean context?")


@pytest.mark.parametrize(
    ("said", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_that_wants_no_colours_gets_none(said: dict[str, str], coloured: bool) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "bot", "pending", "--recording", str(RECORDING)]
    environment = {"HOME": "/nonexistent", "TERM": "xterm", **said}
    with subprocess.Popen(command, cwd=ROOT, stdout=theirs, stdin=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # the end of what a terminal that is gone wrote
            while some := os.read(ours, 65536):
                written += some
    os.close(ours)
    assert process.returncode == 0
    assert (b"\x1b[" in written) is coloured


def test_a_step_in_markdown_asks_the_recording_that_was_read() -> None:
    told = hami_bot("why", "ml/s05-exclusive-cores100", "--recording", RECORDING, "-o", "markdown").stdout
    steps = [line.strip() for line in told.splitlines() if line.strip().startswith(("hami-bot ", "gpus ", "fit "))]
    assert steps
    assert all(step.endswith(f"--recording {RECORDING}") for step in steps)


def test_no_verb_s_summary_is_cut_off() -> None:
    assert "..." not in hami_bot("--help").stdout.replace("[ARGS]...", "")


@pytest.mark.process
@pytest.mark.parametrize("words", [("help", "codes"), ("why", POD)])
def test_a_reader_who_has_seen_enough_is_no_error(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    recording = () if words[0] == "help" else ("--recording", str(RECORDING))
    command = [sys.executable, "-m", "bot", *words, *recording]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
