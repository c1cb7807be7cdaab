"""The alert rules that are shipped name metrics that HAMi has, and pods whose cause can be found."""

import re
from pathlib import Path

import yaml

from bot.hami.vendors import NAMES

RULES = Path(__file__).parents[2] / "deploy" / "prometheus-rules.yaml"
KNOWN = {
    "hami_vgpu_memory_used_bytes",
    "hami_vgpu_memory_limit_bytes",
    "vGPU_device_memory_usage_in_bytes",
    "vGPU_device_memory_limit_in_bytes",
    "kube_pod_status_phase",
    "kube_pod_container_resource_requests",
}
"""HAMi 2.9 and later, before 2.9, kube-state-metrics."""


def rules() -> list[dict]:
    return [rule for group in yaml.safe_load(RULES.read_text())["spec"]["groups"] for rule in group["rules"]]


def test_every_metric_is_one_that_there_is() -> None:
    named = {name for rule in rules() for name in re.findall(r"\b(?:hami|vGPU|kube)_\w+", rule["expr"])}
    assert named == KNOWN


def test_every_rule_says_how_bad_it_is_and_what_it_means() -> None:
    assert len(rules()) == 3
    assert all(rule["labels"]["severity"] == "warning" and rule["annotations"]["summary"] for rule in rules())


def test_a_pod_of_any_vendor_is_noticed() -> None:
    pattern = next(found[1] for rule in rules() if (found := re.search(r'resource=~"([^"]+)"', rule["expr"])))
    counts = [vendor.count.replace("{word}", "Ascend910B") for vendor in NAMES]
    assert all(re.fullmatch(pattern, re.sub(r"[^A-Za-z0-9]", "_", count)) for count in counts)
