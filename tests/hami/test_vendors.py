"""The keys of every vendor, as the reference lists them."""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import msgspec
import pytest

from bot.hami.nodes.node_state import SweptNode
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import BY_WORD, VENDORS, vendor_of_register_key
from bot.kube.models import Container, ObjectMeta, Pod, PodSpec


@pytest.mark.parametrize(
    ("key", "vendor", "word"),
    [
        ("hami.io/node-nvidia-register", "NVIDIA", "NVIDIA"),
        ("hami.io/node-dcu-register", "DCU", "DCU"),
        ("hami.io/node-hcu-register", "HCU", "HCU"),
        ("hami.io/node-register-Ascend910B3", "Ascend", "Ascend910B3"),
        ("hami.io/node-register-Ascend910B4-1", "Ascend", "Ascend910B4-1"),
        ("hami.io/node-register-Ascend310P", "Ascend", "Ascend310P"),
        ("hami.io/node-MR-V100-register", "Iluvatar", "MR-V100"),
        ("hami.io/node-BI-V150-register", "Iluvatar", "BI-V150"),
        ("metax-tech.com/node-gpu-devices", "Metax-SGPU", "Metax-SGPU"),
        ("enflame.com/gcu-drs-capacity", "Enflame", "Enflame"),
        ("hami.io/node-register-xpu", "XPU", "XPU"),
        ("hami.io/node-va-register", "Vastai", "Vastai"),
        ("hami.io/node-biren-register", "Biren", "Biren"),
        ("hami.io/node-amd-register", "AMD", "AMD"),
    ],
)
def test_a_register_key_names_its_vendor(key, vendor, word):
    found = vendor_of_register_key(key)
    assert found is not None
    assert (found[0].word, found[1]) == (vendor, word)


@pytest.mark.parametrize(
    "key",
    [
        "hami.io/node-handshake",
        "hami.io/node-handshake-dcu",
        "hami.io/node-nvidia-score",
        "hami.io/node-nvidia-register-old",
        "hami.io/node-nvidia-assume",
        "hami.io/device-cordon",
        "example.com/node-nvidia-register",
        "",
    ],
)
def test_other_node_annotations_register_nothing(key):
    assert vendor_of_register_key(key) is None


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "nvidia.com/gpumem-percentage",
        "cambricon.com/vmlu",
        "cambricon.com/mlu",
        "cambricon.com/mlu.smlu.vmemory",
        "hygon.com/dcunum",
        "hygon.com/hcunum",
        "huawei.com/Ascend910B3",
        "huawei.com/Ascend910B3-memory",
        "iluvatar.ai/vgpu",
        "iluvatar.ai/MR-V100-vgpu",
        "mthreads.com/vgpu",
        "metax-tech.com/gpu",
        "metax-tech.com/sgpu",
        "enflame.com/drs-gcu",
        "enflame.com/vgcu",
        "enflame.com/gcu",
        "kunlunxin.com/xpu",
        "kunlunxin.com/vxpu",
        "amd.com/gpu",
        "aws.amazon.com/neuroncore",
        "vastaitech.com/va",
        "birentech.com/gpu",
    ],
)
def test_resources_that_hami_hands_out_by_default(resource):
    assert DeviceConfig().manages(resource)


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "nvidia.com/mig-1g.5gb", "amd.com/xilinx", "aws.amazon.com/x", "rdma/hca", ""]
)
def test_resources_that_hami_does_not_hand_out(resource):
    assert not DeviceConfig().manages(resource)


ROOT = Path(__file__).parents[2]
OWN = ROOT / "bot" / "hami" / "vendors"
NVIDIAS_SOFTWARE = (
    "bot/hami/nodes/node_state.py",
    "bot/hami/installation/install.py",
    "bot/kube/node_conditions.py",
    "bot/kube/recording/redact.py",
    "handlers/shell_commands.py",
    "playbooks/gather/node_side.py",
    "playbooks/rules/common/findings.py",
    "playbooks/rules/nodes/gpu_faults.py",
    "playbooks/rules/nodes/plugin_faults.py",
    "playbooks/rules/placed/container_faults.py",
    "playbooks/rules/placed/container_log_faults.py",
    "playbooks/rules/placed/hami_core.py",
    "playbooks/rules/waiting/refused_requests.py",
    "playbooks/tune/usage.py",
    "playbooks/tune/advice.py",
    "playbooks/tune/sharing.py",
)
"""They are about labels, variables, images, pods and conditions of NVIDIA's own software, about HAMi-core, which is for
NVIDIA alone, or about the chart's values of its device plugin.
"""
DRA_DRIVERS = ("bot/hami/installation/dra.py",)
"""HAMi-DRA's drivers are no vendors of HAMi's scheduler, and some are called after one."""


@pytest.mark.source
@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.names.word)
def test_no_code_outside_its_folder_names_a_vendor(vendor):
    """Comments and docstrings may: they cite HAMi's files. The texts for people are in catalogs."""
    word = "nvidia" if vendor.names.word == "NVIDIA" else vendor.names.domain
    found = []
    for path in (path for part in ("bot", "handlers", "playbooks") for path in (ROOT / part).rglob("*.py")):
        if OWN not in path.parents:
            code = code_of(path)
            found += [f"{path.relative_to(ROOT)}:{line}" for line, text in code if word in text]
    assert [entry for entry in found if entry.split(":")[0] not in (*NVIDIAS_SOFTWARE, *DRA_DRIVERS)] == []


@cache
def code_of(path):
    """Its tokens in lower case, with their lines; no comment and no docstring."""
    found = []
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    begins = True  # a string that begins a statement is a docstring
    for token in tokens:
        is_text = token.type == tokenize.STRING and begins
        if token.type != tokenize.COMMENT and not is_text:
            found.append((token.start[0], token.string.lower()))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return found


@pytest.mark.parametrize(
    ("word", "labels", "name", "image"),
    [
        ("NVIDIA", {"app.kubernetes.io/component": "hami-device-plugin"}, "a", "b"),
        ("Ascend", {"app.kubernetes.io/component": "hami-ascend-device-plugin"}, "a", "b"),
        ("Ascend", {}, "a", "projecthami/ascend-device-plugin:v1.2.0"),
        ("DCU", {"name": "dcu-dp-ds"}, "a", "b"),
        ("MLU", {}, "cambricon-device-plugin-daemonset-x7k2p", "b"),
        ("Metax-SGPU", {}, "metax-gpu-device-x7k2p", "b"),
        ("Iluvatar", {}, "a", "example/ix-device-plugin:4.4.0"),
        ("Mthreads", {}, "mt-device-plugin-x7k2p", "b"),
        ("Enflame", {}, "gcushare-device-plugin-x7k2p", "b"),
        ("XPU", {"app.kubernetes.io/component": "vxpu-device-plugin"}, "a", "b"),
        ("Vastai", {"app.kubernetes.io/component": "hami-vastai-device-plugin"}, "a", "b"),
        ("Biren", {}, "biren-device-plugin-daemonset-x7k2p", "b"),
        ("AMD", {"name": "amdgpu-dp-ds"}, "a", "b"),
        ("AWSNeuron", {"name": "neuron-device-plugin-ds"}, "a", "b"),
    ],
)
def test_a_device_plugin_is_its_vendor_s_by_a_label_or_by_what_it_is_called(word, labels, name, image):
    pod = Pod(metadata=ObjectMeta(name=name, labels=labels), spec=PodSpec(containers=[Container("main", image)]))
    assert BY_WORD[word].is_plugin(pod)
    assert word == "NVIDIA" or not BY_WORD["NVIDIA"].is_plugin(pod)


def test_a_workload_is_no_device_plugin():
    pod = Pod(metadata=ObjectMeta(name="trainer-0"), spec=PodSpec(containers=[Container("main", "example/train:1")]))
    assert not any(vendor.is_plugin(pod) for vendor in VENDORS)


@pytest.mark.parametrize("vendor", VENDORS, ids=[vendor.names.word for vendor in VENDORS])
def test_the_documentation_has_the_vendor_s_keys_labels_and_plugin(vendor):
    table = (ROOT / "docs" / "vendors.md").read_text().split("## Nodes and device plugins")[1]
    row = next((line for line in table.splitlines() if line.startswith(f"| {vendor.names.word} |")), "")
    assert row, f"docs/vendors.md, Nodes and device plugins: a row for {vendor.names.word} is missing"
    names, label = vendor.names.of("CHIP") if "{" in vendor.names.register else vendor.names, vendor.node_label
    told = [names.register or f"capacity {names.capacity}", names.handshake, vendor.lock_key, vendor.plugin_labels]
    told.append("=".join(label) if label[0] else "")
    assert all(text in row for text in told), told
    image = row.rstrip(" |").rsplit("| ", 1)[1]
    assert bool(vendor.plugin_names) == (image != "–")
    assert image == "–" or re.search(vendor.plugin_names, f"{image}-x7k2p")


def test_a_sweep_over_all_nodes_reads_the_labels_that_give_nodes_to_vendors():
    labels = dict(vendor.node_label for vendor in VENDORS if vendor.node_label[0])
    node = msgspec.convert({"metadata": {"name": "gpu-1", "labels": labels}}, SweptNode)
    lacking = [key for key, value in labels.items() if node.metadata.label(key) != value]
    assert lacking == []
