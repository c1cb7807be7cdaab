"""What `fit -f` takes: every form that pods are written in, and a clear refusal of everything else."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from bot.errors import UsageError
from bot.texts import in_english
from playbooks.fit.manifest import Manifest, ManifestFile, read_pods

MANIFESTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "inputs/fit.yaml").read_text())
POD = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: m}]}\n"
AS_JSON = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j"}, "spec": {"containers": [{"name": "m"}]}}


def names(*texts: str) -> list[str]:
    return [pod.name for pod in read_pods(Manifest(f"{i}.yaml", text) for i, text in enumerate(texts))]


def refusal(text: str) -> UsageError:
    with pytest.raises(UsageError) as refused:
        read_pods([Manifest("pod.yaml", text)])
    return refused.value


def message_of(text: str) -> str:
    return in_english(refusal(text).message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD, ["a"]),
        ("\ufeff" + POD, ["a"]),
        (POD.replace("\n", "\r\n"), ["a"]),
        (f"---\n{POD}---\n---\n# nothing\n---\n{POD.replace('a}', 'b}')}", ["a", "b"]),
        ("{kind: Pod, metadata: {name: flow}}", ["flow"]),
        (json.dumps(AS_JSON), ["j"]),
        (json.dumps([AS_JSON, AS_JSON]), ["j", "j"]),
        (json.dumps({"kind": "List", "items": [AS_JSON]}), ["j"]),
        (json.dumps({"kind": "PodList", "items": [{"metadata": {"name": "bare"}}, AS_JSON]}), ["bare", "j"]),
        ("kind: List\nitems:\n- {kind: Pod, metadata: {name: x}}\n- {kind: Pod, metadata: {name: y}}\n", ["x", "y"]),
        ("- {kind: Pod, metadata: {name: x}}\n", ["x"]),
        ("- &p {kind: Pod, metadata: {name: x}}\n- *p\n", ["x", "x"]),
    ],
)
def test_pods_are_read_in_every_form_and_in_order(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_several_files_are_read_one_after_the_other() -> None:
    assert names(POD, json.dumps(AS_JSON)) == ["a", "j"]


def test_a_time_is_text_as_in_the_api() -> None:
    text = "kind: Pod\nmetadata: {name: a, creationTimestamp: 2026-11-21T04:00:00Z, annotations: {at: 2026-11-21}}\n"
    (pod,) = read_pods([Manifest("pod.yaml", text)])
    assert pod.metadata.creation_timestamp == "2026-11-21T04:00:00Z"
    assert pod.metadata.annotations == {"at": "2026-11-21"}


def test_amounts_are_taken_as_numbers_and_as_text() -> None:
    text = "kind: Pod\nspec: {containers: [{name: m, resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 1k}}}]}"
    (pod,) = read_pods([Manifest("pod.yaml", text)])
    assert pod.spec.containers[0].resources is not None
    assert pod.spec.containers[0].resources.limits == {"nvidia.com/gpu": 2, "nvidia.com/gpumem": "1k"}


@pytest.mark.parametrize(
    "text", ["", "---\n", "# only a comment\n", "kind: List\nitems: []\n", "[]", "kind: List\nitems: 5"]
)
def test_nothing_to_try_is_told(text: str) -> None:
    assert message_of(text) == "the manifest holds no pod"


@pytest.mark.parametrize("kind", ["Deployment", "Service", "Podd", "pod"])
def test_another_kind_is_named_and_the_way_out_is_told(kind: str) -> None:
    refused = refusal(f"kind: {kind}\nmetadata: {{name: x}}\n")
    assert f"kind {kind}" in in_english(refused.message)
    assert "template" in in_english(refused.hint)


def test_what_has_no_pods_is_left_out_beside_what_has() -> None:
    assert names("kind: List\nitems:\n- {kind: Pod, metadata: {name: a}}\n- {kind: Service}\n") == ["a"]
    assert "kind Service, ConfigMap" in message_of("kind: Service\n---\nkind: ConfigMap\n")


def test_a_pod_gets_what_its_object_sets_for_all_of_its_pods() -> None:
    (case,) = (case for case in MANIFESTS if case["name"] == "argo-workflow")
    train, _ = read_pods([Manifest("w.yaml", case["text"])])
    assert (train.spec.node_selector, train.namespace, train.name) == ({"pool": "t4"}, "ml", "pipeline-train")
    (case,) = (case for case in MANIFESTS if case["name"] == "vcjob")
    (worker,) = read_pods([Manifest("w.yaml", case["text"].replace("schedulerName: volcano", "queue: q"))])
    assert worker.spec.scheduler_name == "volcano"


@pytest.mark.parametrize("text", ["just words", "5", "[1, 2]", "{}", "a: b", "kind: [Pod]"])
def test_what_is_no_object_of_the_api_is_refused(text: str) -> None:
    assert "not a Pod" in message_of(text)


@pytest.mark.parametrize("text", ["a: [", "\x00", "a: b: c", "\t- x", "!!python/object/apply:os.system ['true']", "*a"])
def test_what_is_neither_yaml_nor_json_is_refused(text: str) -> None:
    refused = refusal(text)
    assert in_english(refused.message).startswith("pod.yaml ")
    assert len(in_english(refused.message)) < 300
    assert "\n" not in in_english(refused.message)


@pytest.mark.parametrize(
    "text", ["kind: Pod\nspec: 5", "kind: Pod\nmetadata: {name: 5}", "kind: Pod\nspec: {containers: x}"]
)
def test_a_pod_of_the_wrong_shape_is_told_where(text: str) -> None:
    assert "`$." in message_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "&a {kind: List, items: [*a]}",
        "[" * 100_000,
        "a: " + "[" * 100_000,
        "- " * 100_000,
        "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]",
    ],
    ids=["itself", "list of itself", "json", "yaml", "dashes", "aliases"],
)
def test_nesting_without_end_ends_in_a_refusal(text: str) -> None:
    assert len(message_of(text)) < 300


def test_a_small_file_that_stands_for_endless_pods_is_refused() -> None:
    document = "kind: List\nitems:\n- &p {kind: Pod, metadata: {name: a}}\n" + "- *p\n" * 6000
    assert "more than 5000 pods" in message_of(document)


# ---------------------------------------------------------------------------------------------- the option


@click.command()
@click.option("-f", "files", type=ManifestFile(), multiple=True)
def command(files: tuple[Manifest, ...]) -> None:
    for file in files:
        click.echo(f"{file.path} {len(file.text)}")


def test_a_file_and_standard_input_can_both_be_given(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    done = CliRunner().invoke(command, ["-f", str(tmp_path / "pod.yaml"), "-f", "-"], input=POD)
    assert done.output.splitlines() == [f"{tmp_path / 'pod.yaml'} {len(POD)}", f"- {len(POD)}"]


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_a_wrong_command(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(command, ["-f", str(tmp_path / name)])
    assert done.exit_code == 2
    assert name in done.output


def test_a_file_that_is_no_text_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_bytes(b"\xff\xfe\x00")
    assert CliRunner().invoke(command, ["-f", str(tmp_path / "pod.yaml")]).exit_code == 0


def test_a_file_without_end_is_refused() -> None:
    done = CliRunner().invoke(command, ["-f", "/dev/zero"])
    assert done.exit_code == 2
    assert "larger than 16 MiB" in done.output
