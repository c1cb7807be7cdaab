"""What the steps of an answer say: who and what has to change, from which value to which, and whether it is a look."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.render.markdown import markdown
from bot.render.terminal import terminal
from bot.report import NextAction, Report
from bot.slack.render.report import slack_json
from bot.texts import LANGUAGES, Language, Texts
from playbooks.rules.common.prose import alternatives
from tests.cases_support import questions, scenarios
from tests.incidents_support import incidents
from tests.playbooks import inside_support
from tests.playbooks.inside_support import env, looping, with_container
from tests.playbooks.world import (
    HAMI,
    Object,
    ask,
    card,
    cause,
    cluster,
    codes,
    container,
    gpu,
    gpu_node,
    none_of,
    owner,
    plugin_pod,
    pod,
    refused,
    running,
)

# ------------------------------------------------------------------------------------------------ of other pods


FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))


def waiting(folder: Path, *holders: Object) -> NextAction:
    """The step about the pod that holds the only GPU."""
    objects = cluster(pod(limits=gpu(memory=9000), said=FULL), gpu_node(), *holders)
    steps = cause(ask(folder, objects)).next_actions
    return next(step for step in steps if "Wait for" in step.label)


def test_a_pod_that_asks_for_a_whole_gpu_is_told_no_smaller_amount_where_none_is_left(tmp_path: Path) -> None:
    holder = running("old", "gpu-1", ("GPU-gpu-1", 16384, 0))
    found = cause(ask(tmp_path, cluster(pod(limits=gpu(), said=FULL), gpu_node(), holder)))
    assert "asks for 1 whole GPU, and no usable GPU of gpu-1 is wholly free. Container main sets no" in found.claim
    assert not [step for step in found.next_actions if "gpumem" in step.label]


def held(name: str, of: Object | None, memory: int = 12000) -> Object:
    return running(name, "gpu-1", ("GPU-gpu-1", memory, 0), owner=of)


def test_a_holder_without_an_owner_is_deleted(tmp_path: Path) -> None:
    step = waiting(tmp_path, held("old", None))
    assert step.label.endswith("delete it: nothing owns it, so nothing starts it again")
    assert (step.command, step.changes_cluster) == ("kubectl -n ml delete pod old", True)


@pytest.mark.parametrize(
    ("kind", "pods", "told", "command"),
    [
        (
            "StatefulSet",
            ["web-0"],
            "scale StatefulSet ml/web to 0 (now 1)",
            "kubectl -n ml scale statefulset/web --current-replicas=1 --replicas=0",
        ),
        (
            "ReplicaSet",
            ["web-a", "web-b"],
            "scale ReplicaSet ml/web to 1 (now 2)",
            (
                "kubectl -n ml annotate pod web-a controller.kubernetes.io/pod-deletion-cost=-1"
                " && kubectl -n ml scale replicaset/web --current-replicas=2 --replicas=1"
            ),
        ),
        (
            "Job",
            ["web-x"],
            "suspend Job ml/web, which ends all its pods",
            """kubectl -n ml patch job/web -p '{"spec":{"suspend":true}}'""",
        ),
        ("RayCluster", ["web-x"], "stop RayCluster ml/web", "kubectl -n ml get raycluster web -o yaml"),
    ],
)
def test_a_holder_with_an_owner_is_ended_by_its_owner_which_would_start_another(
    kind: str, pods: list[str], told: str, command: str, tmp_path: Path
) -> None:
    of = owner(kind, "web")
    step = waiting(tmp_path, *(held(name, of, 12000 // len(pods)) for name in pods))
    assert told in step.label
    assert step.label.endswith(f"if only the pod is deleted, {kind} ml/web starts another")
    assert (step.command, step.changes_cluster) == (command, True)


def test_a_stateful_set_is_not_scaled_where_that_would_end_other_pods_too(tmp_path: Path) -> None:
    of = owner("StatefulSet", "web")
    step = waiting(tmp_path, held("web-0", of, 11000), held("web-5", of, 1000))
    assert (step.command, "stop StatefulSet ml/web" in step.label) == (
        "kubectl -n ml get statefulset web -o yaml",
        True,
    )


def of_deployment(one: Object, template: str) -> Object:
    """The pod of a Deployment's ReplicaSet, as one of its revisions made it."""
    refers = {"kind": "ReplicaSet", "name": f"web-{template}", "uid": f"uid-{template}", "controller": True}
    one["metadata"] |= {"ownerReferences": [refers]}
    one["metadata"]["labels"] |= {"pod-template-hash": template}
    return one


@pytest.mark.parametrize("template", ["5d8", "7c9"])
def test_nobody_is_told_to_end_a_pod_of_the_same_deployment_whatever_its_revision(
    template: str, tmp_path: Path
) -> None:
    wants = of_deployment(pod(limits=gpu(memory=9000), said=FULL), "7c9")
    report = ask(tmp_path, cluster(wants, gpu_node(), of_deployment(held("old", None), template)))
    assert not any("ml/old" in step.label for step in cause(report).next_actions)


# ------------------------------------------------------------------------------------------------ of settings


OF_NODE = {
    "kind": "ConfigMap",
    "metadata": {"name": "hami-device-plugin", "namespace": HAMI},
    "data": {"config.json": '{"nodeconfig": [{"name": "gpu-1", "devicesplitcount": 2}]}'},
}


@pytest.mark.parametrize(
    ("others", "label", "command"),
    [
        (
            (),
            (
                "In ConfigMap hami-system/hami-scheduler-device, device-config.yaml, set nvidia.deviceSplitCount: 4 "
                "(now 2, for all nodes), and restart the device plugin, which reads it when it starts"
            ),
            (
                "kubectl -n hami-system edit configmap hami-scheduler-device"
                " && kubectl -n hami-system rollout restart daemonset -l app.kubernetes.io/component=hami-device-plugin"
            ),
        ),
        (
            (OF_NODE,),
            (
                "In ConfigMap hami-system/hami-device-plugin, config.json, in the entry of gpu-1, "
                "set deviceSplitCount: 4 "
                "(now 2), and restart the device plugin there, which reads it when it starts"
            ),
            (
                "kubectl -n hami-system edit configmap hami-device-plugin"
                " && kubectl -n hami-system delete pod -l app.kubernetes.io/component=hami-device-plugin"
                " --field-selector spec.nodeName=gpu-1"
            ),
        ),
    ],
)
def test_more_slots_are_set_where_the_setting_stands(
    others: tuple[Object, ...], label: str, command: str, tmp_path: Path
) -> None:
    said = refused(none_of(1, "1 1/1 CardTimeSlicingExhausted"))
    node = gpu_node("gpu-1", card("GPU-gpu-1", count=2))
    both = [running(name, "gpu-1", ("GPU-gpu-1", 1000, 0)) for name in ("a", "b")]
    objects = [pod(said=said), node, *both, *others]
    report = ask(tmp_path, cluster(*objects, config="nvidia: {deviceSplitCount: 2}\n"))
    assert codes(report)[0] == "card-time-slicing-exhausted"
    step = next(step for step in cause(report).next_actions if "plit" in step.label)
    told = f"Or: {label} (gpu-1 would then take the pod)"
    assert (step.label, step.command, step.changes_cluster) == (told, command, True)


# ------------------------------------------------------------------------------------------------ of sums


def test_init_containers_that_add_up_are_told_their_sum_the_gpu_s_size_and_what_each_may_ask_for(
    tmp_path: Path,
) -> None:
    inits = [container(gpu(memory=10000), f"step{number}") for number in range(2)]
    asks = pod(said=FULL, initContainers=inits, limits={})
    report = ask(tmp_path, cluster(asks, gpu_node(), version="2.9.0"))
    assert "20,000 MiB in all, on GPUs of 16,384 MiB" in cause(report).claim
    each = "set limits nvidia.com/gpumem of step0, step1 to at most 8192 (now 10000, 10000), 2 to a GPU of 16,384 MiB"
    assert each in cause(report).next_actions[0].label


# ------------------------------------------------------------------------------------------------ of no GPU


NO_GPU = "[HAMI-core ERROR (pid:18 thread=14 libvgpu.c:874)]: cuInit failed:100\n"


def blind(folder: Path, of_plugin: str, **fields: Any) -> Report:
    """The answer about a container in which CUDA finds no GPU."""
    one = with_container(**fields)
    one["status"]["containerStatuses"] = [looping(1)]
    beside = plugin_pod("gpu-1")
    beside["spec"]["runtimeClassName"] = of_plugin
    return inside_support.asked(folder, one, beside, last=NO_GPU)


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl to run the command")
def test_the_command_that_creates_a_pod_anew_changes_what_its_step_says_and_nothing_else(tmp_path: Path) -> None:
    asking = pod(limits=gpu(memory=20_000), said=FULL, nodeSelector={"pool": "t4", "zone": "a"})
    small = gpu_node(labels={"pool": "t4", "zone": "a"})
    large = gpu_node("gpu-2", card("GPU-2", memory=40_000), labels={"zone": "a"})
    steps = [step for step in cause(ask(tmp_path, cluster(asking, small, large))).next_actions if step.changes_cluster]
    made = []
    for step in steps:
        read, change, replaced = step.command.split(" | ")
        assert (read, replaced) == ("kubectl -n ml get pod wl -o yaml", "kubectl replace --force -f -")
        done = subprocess.run(
            change,
            shell=True,
            check=True,
            capture_output=True,
            input=json.dumps(asking | {"apiVersion": "v1"}).encode(),
        )
        made.append(yaml.safe_load(done.stdout)["spec"])
    assert [one["nodeSelector"] for one in made] == [{"zone": "a"}, {"pool": "t4", "zone": "a"}]
    limits = [one["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] for one in made]
    assert [*map(str, limits)] == ["20000", "16384"]


def test_a_gpu_that_the_pod_s_own_environment_hides_is_told_with_the_variable(tmp_path: Path) -> None:
    first = cause(blind(tmp_path, "", **env("NVIDIA_VISIBLE_DEVICES", "none")))
    assert 'the pod itself sets NVIDIA_VISIBLE_DEVICES to "none"' in first.claim
    assert first.next_actions[0].label.startswith("Remove NVIDIA_VISIBLE_DEVICES from the env of container main")


def test_a_pod_that_another_runtime_started_is_told_the_class_that_the_plugin_needs(tmp_path: Path) -> None:
    first = cause(blind(tmp_path, "nvidia"))
    assert "NVIDIA's runtime did not start it" in first.claim
    assert first.next_actions[0].label.startswith("Set runtimeClassName: nvidia (now not set)")


@pytest.mark.parametrize("own", ["", "nvidia"])
def test_where_neither_cause_can_be_seen_that_is_said(own: str, tmp_path: Path) -> None:
    first = cause(blind(tmp_path, own, **({"runtimeClassName": own} if own else {})))
    assert "could be read" in first.claim
    asked = "kubectl -n ml run image-env --rm -i --restart=Never --image=example/main --command -- printenv "
    assert first.next_actions[-1].command.startswith(asked)


# ------------------------------------------------------------------------------------------------ of several ways


def way(*commands: str) -> list[NextAction]:
    return [NextAction(command, command, changes_cluster=command.startswith("kubectl ")) for command in commands]


DELETE, PATCH = "kubectl delete pod old", "kubectl patch resourcequota cards"


@pytest.mark.parametrize(
    ("ways", "steps"),
    [
        ([(DELETE,), ("quota ml", PATCH)], [DELETE, PATCH, "quota ml"]),
        (
            [("nodes", DELETE, "gpus"), (PATCH,), ("quota ml",)],
            ["nodes", DELETE, PATCH, "gpus", "quota ml"],
        ),
        ([("nodes", DELETE, "gpus"), ("quota ml",)], ["nodes", DELETE, "gpus", "quota ml"]),
    ],
    ids=["a look of the second way", "looks of several ways", "one way"],
)
def test_nothing_that_only_looks_stands_between_ways_that_are_each_enough(
    ways: list[tuple[str, ...]], steps: list[str]
) -> None:
    told = alternatives([way(*commands) for commands in ways])
    assert [one.command for one in told] == steps
    marks = ["words.either", "words.or"] if PATCH in steps else [""]
    assert [one.key for one in told if one.changes_cluster] == marks


# ------------------------------------------------------------------------------------------------ their marks


@cache
def answers(language: Language) -> dict[str, Report]:
    """The answers to all that was recorded; the steps of `fit` are about a manifest that is in no cluster yet."""
    asked = [one for one in (*(scenario.question for scenario in scenarios()), *questions()) if one.verb != "fit"]
    found = {f"{one.version} {one.verb} {one.values}": one.ask(language=language) for one in asked}
    return found | {f"{one.name} {one.verb}": one.ask(language=language) for one in incidents() if one.verb != "fit"}


_LOOKS = re.compile(
    r"(Afterwards|Ask|Check|Compare|Find|If HAMi runs|List|Look|Read|See|Show|Run nvidia-smi|Take a profile)\b"
    r"|Wait until|Wait some seconds|Container \w+ is privileged"
)
_ACTS = re.compile(
    r"(?:^|[,;:.] (?:and |then |or |else )?|\band )"
    r"(?:recreate|restart|remove|end|upgrade|set|label|scale|delete|turn|edit|reset|replace)\b",
    re.IGNORECASE,
)
"""English words with which a label tells to look, and those with which it tells to change something."""


@pytest.mark.few(1)
def test_a_step_is_marked_as_a_change_where_its_words_tell_to_change_something() -> None:
    wrong = {
        (step.label, step.changes_cluster)
        for report in answers("en").values()
        for finding in report.findings
        for step in finding.next_actions
        if not step.command.startswith("why ")  # one of `pending`, which tells in short what `why` has the steps for
        if step.changes_cluster != (not _LOOKS.match(step.label) or bool(_ACTS.search(step.label)))
    }
    assert wrong == set()


@pytest.mark.few(1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_step_shows_its_mark_in_a_shell_in_markdown_and_in_slack(language: Language) -> None:
    say = Texts(language)
    for name, report in answers(language).items():
        steps = [step for finding in report.findings for step in finding.next_actions]
        shown = (markdown(report, say), terminal(report, say, width=10_000, colour=False))
        for told in ("".join(text.split()) for text in shown):
            for step in steps:
                mark = "looks-first" if step.only_looks else "changes"
                mark = mark if step.changes_cluster else "looks" if step.only_looks else ""
                marked = say(f"render.{mark}", label=step.label) if mark else step.label
                assert "".join(step.label.split()) not in told or "".join(marked.split()) in told, name
        first = report.findings[0].next_actions[:1]
        mark = say("render.changes", label="").strip()
        assert all(mark in slack_json(report, say) for step in first if step.changes_cluster), name
