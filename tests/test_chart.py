"""What the chart installs, as Helm renders it."""

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import helm_python as helm
import pytest
import yaml

from bot.endpoint import ALERTS_PATH
from bot.settings import load_settings
from bot.settings.schema import Settings
from tests.chart import (
    BOT,
    CHANGING,
    CHART,
    DEAD_MAN,
    PROXYING,
    Manifest,
    environment,
    granted,
    install_manifest,
    manifests,
    of_kind,
    rendered,
    rules_manifest,
)
from tests.chart_schema import values_schema
from tests.dashboard import DASHBOARD, dashboard
from tests.update_docs import RULES, VALUES_SCHEMA

DOCS = CHART.parents[1] / "docs"
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
ONCALL = {"channel": "C0123ABCD"}
POSTGRES = {"replicas": 3, "store": {"postgres": {"secretName": "database"}}}
VALUES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "changing": CHANGING,
    "everything": {**PROXYING, **POSTGRES, "settings": {"language": "zh"}, "imagePullSecrets": [{"name": "pull"}]}
    | {"slack": {"mode": "http"}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    | {"podAnnotations": {"a": "b"}, "affinity": {"nodeAffinity": {}}}
    | {"networkPolicy": {"enabled": True, "from": [MONITORING]}, "workloadLogs": {"namespaces": ["ml"]}}
    | {"metrics": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}},
}
with_each = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)


def pods(objects: list[Manifest]) -> list[Manifest]:
    """The pod specs of whatever starts pods."""
    found = [object_["spec"]["template"]["spec"] for object_ in of_kind("Deployment", objects)]
    return found + [
        object_["spec"]["jobTemplate"]["spec"]["template"]["spec"] for object_ in of_kind("CronJob", objects)
    ]


@with_each
def test_helm_finds_nothing_wrong_with_it(values: dict[str, Any]) -> None:
    report = helm.lint(CHART, values, strict=True)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] > 1] == []


@with_each
def test_every_pod_runs_as_nobody_on_a_read_only_root(values: dict[str, Any]) -> None:
    for pod in pods(manifests(values)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 65532  # the user of the Dockerfile
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_alertmanagers_token_comes_from_a_secret_where_one_is_named() -> None:
    named = environment(manifests({"oncall": {"secretName": "alerts", "key": "bearer"}}))["HAMI_BOT_ONCALL__TOKEN"]
    assert named["valueFrom"] == {"secretKeyRef": {"name": "alerts", "key": "bearer"}}
    assert "HAMI_BOT_ONCALL__TOKEN" not in environment(manifests({}))


def test_the_key_of_the_audit_log_comes_from_a_secret_where_one_is_named() -> None:
    named = environment(manifests({"store": {"auditKey": {"secretName": "bot"}}}))["HAMI_BOT_STORE__AUDIT_KEY"]
    assert named["valueFrom"] == {"secretKeyRef": {"name": "bot", "key": "audit-key"}}
    assert "HAMI_BOT_STORE__AUDIT_KEY" not in environment(manifests({}))


def test_the_secrets_of_pagers_come_from_the_same_secret() -> None:
    given = {"secretName": "alerts", "key": "token", "paging": {"pagerdutyRoutingKey": "pd", "webhookSecret": "own"}}
    found = environment(manifests({"oncall": given}))
    named = {name: one["valueFrom"]["secretKeyRef"] for name, one in found.items() if "__PAGING__" in name}
    assert named == {
        "HAMI_BOT_ONCALL__PAGING__PAGERDUTY__ROUTING_KEY": {"name": "alerts", "key": "pd"},
        "HAMI_BOT_ONCALL__PAGING__WEBHOOK__SECRET": {"name": "alerts", "key": "own"},
    }


def test_alertmanager_reaches_the_service_where_the_docs_say() -> None:
    said = urlsplit(re.findall(r"- url: (http\S+)", (DOCS / "oncall.md").read_text(encoding="utf-8"))[0])
    (service,) = of_kind("Service", manifests())
    installed_in = re.findall(r"helm -n (\S+) install", (DOCS / "install.md").read_text(encoding="utf-8"))[0]
    assert said.netloc == f"{service['metadata']['name']}.{installed_in}.svc"
    assert said.path == ALERTS_PATH
    assert (said.port or 80) in [port["port"] for port in service["spec"]["ports"]]


@with_each
def test_what_is_named_is_there(values: dict[str, Any]) -> None:
    objects = manifests(values)
    names = {(object_["kind"], object_["metadata"]["name"]) for object_ in objects}
    for pod in pods(objects):
        assert ("ServiceAccount", pod["serviceAccountName"]) in names
        for volume in pod.get("volumes", []):
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
    (bot,) = of_kind("Deployment", objects)
    labels = bot["spec"]["template"]["metadata"]["labels"]
    assert all(object_["spec"]["selector"].items() <= labels.items() for object_ in of_kind("Service", objects))
    assert bot["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_no_pod_but_the_bots_is_behind_its_service() -> None:
    objects = manifests(CHANGING)
    (service,), (job,) = of_kind("Service", objects), of_kind("CronJob", objects)
    labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert not service["spec"]["selector"].items() <= labels.items()


@with_each
def test_every_setting_in_the_environment_is_one(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, one in environment(manifests(values)).items():
        if name != "HAMI_BOT_CONFIG":
            monkeypatch.setenv(name, one.get("value", "xoxb-from-a-secret"))
    settings = load_settings()
    assert settings
    assert settings.slack
    assert settings.replicas == values.get("replicas", 1)


def test_the_settings_file_says_what_the_values_say(tmp_path: Path) -> None:
    settings = {"language": "zh", "clusters": {"lab": {"context": "lab"}}}
    (config,) = of_kind("ConfigMap", manifests({"settings": settings}))
    file = tmp_path / "settings.yaml"
    file.write_text(config["data"]["settings.yaml"])
    loaded = load_settings(file)
    assert loaded
    assert loaded.language == "zh"
    assert list(loaded.clusters) == ["lab"]


def test_one_replica_has_a_volume_and_several_have_postgresql() -> None:
    one, several = manifests(), manifests(POSTGRES)
    assert environment(one)["HAMI_BOT_STORE__URL"]["value"] == "sqlite:////var/lib/hami-bot/hami-bot.db"
    assert [claim["spec"]["accessModes"] for claim in of_kind("PersistentVolumeClaim", one)] == [["ReadWriteOnce"]]
    assert of_kind("Deployment", one)[0]["spec"]["strategy"] == {"type": "Recreate"}
    assert environment(several)["HAMI_BOT_STORE__URL"]["valueFrom"]["secretKeyRef"]["name"] == "database"
    assert of_kind("PersistentVolumeClaim", several) == []


def test_a_trial_needs_no_volume_and_the_notes_say_what_that_costs() -> None:
    trial = {"store": {"persistence": {"enabled": False}}}
    objects = manifests(trial)
    assert of_kind("PersistentVolumeClaim", objects) == []
    assert {"name": "state", "emptyDir": {}} in pods(objects)[0]["volumes"]
    assert "lost with the pod" in rendered(trial)["NOTES.txt"]
    assert "lost with the pod" not in rendered()["NOTES.txt"]


def test_the_notes_say_what_to_do_next() -> None:
    notes = rendered()["NOTES.txt"]
    for word in ("/invite @hami-bot", "/hami\n", "exec deploy/hami-bot -- hami-bot doctor"):
        assert word in notes


def test_several_replicas_without_postgresql_are_refused() -> None:
    with pytest.raises(helm.HelmError, match="more than one replica needs PostgreSQL"):
        rendered({"replicas": 2})


def test_the_dead_man_runs_every_minute_and_can_be_switched_off() -> None:
    (job,) = of_kind("CronJob", manifests(CHANGING))
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert job["spec"]["schedule"] == "* * * * *"
    assert container["args"] == ["revert-overdue", "--namespace", "hami-system"]
    assert "env" not in container
    assert of_kind("CronJob", manifests({**CHANGING, "deadMan": {"enabled": False}})) == []
    assert of_kind("CronJob", manifests()) == []


def test_no_token_stands_in_a_release() -> None:
    for value in environment(manifests()).values():
        if "TOKEN" in value["name"] or "SECRET" in value["name"]:
            assert set(value["valueFrom"]) == {"secretKeyRef"}
    assert of_kind("Secret", manifests()) == []


# -------------------------------------------------------------------------------------------------- network policies


def policies(values: dict[str, Any] | None = None) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in of_kind("NetworkPolicy", manifests(values))}


def anywhere(policy: Manifest) -> set[tuple[str, int]]:
    """The ports that may be reached at any address."""
    return {(port["protocol"], port["port"]) for rule in policy["egress"] if "to" not in rule for port in rule["ports"]}


DNS = {(protocol, port) for protocol in ("UDP", "TCP") for port in (53, 5353)}


def test_the_bot_reaches_dns_slack_pagers_api_servers_and_prometheus_and_nothing_else() -> None:
    policy = policies()[BOT]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert anywhere(policy) == DNS | {("TCP", 443), ("TCP", 6443), ("TCP", 9090)}
    assert [rule for rule in policy["egress"] if "to" in rule] == []


def test_the_bot_reaches_postgresql_where_that_is_its_store() -> None:
    assert ("TCP", 5432) in anywhere(policies(POSTGRES)[BOT])


def test_the_bot_reaches_the_port_of_every_address_in_the_settings() -> None:
    prometheus = {"url": "http://thanos.monitoring:10902"}
    settings = {
        "clusters": {"lab": {"prometheus": prometheus}, "b": {"prometheus": {"url": "https://prometheus.example"}}},
        "oncall": ONCALL | {"paging": {"webhook": {"url": "https://pager.example:8443/hook"}}},
    }
    opened = anywhere(policies({"settings": settings})[BOT]) - anywhere(policies()[BOT])
    assert opened == {("TCP", 10902), ("TCP", 8443)}


@pytest.mark.parametrize("also", [["ml", "vision"], "ml, vision"])
def test_the_bot_reaches_pods_straight_only_where_it_may_profile_them_so(also: Any) -> None:
    spec = policies({"settings": {"profiles": {"direct": True, "namespaces": also}}})[BOT]
    (rule,) = [rule for rule in spec["egress"] if "to" in rule]
    named = [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in rule["to"]]
    assert named == ["hami-system", "ml", "vision"]
    assert rule["ports"] == [{"protocol": "TCP"}]


def test_the_dead_man_reaches_what_the_bot_reaches_and_nobody_reaches_it() -> None:
    objects = manifests(CHANGING)
    spec, (job,) = policies(CHANGING)[DEAD_MAN], of_kind("CronJob", objects)
    labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["ingress"] == []
    assert anywhere(spec) == anywhere(policies()[BOT])


def test_the_network_policy_lets_those_in_whom_the_values_name_and_only_to_the_port() -> None:
    objects = manifests({"networkPolicy": {"from": [MONITORING]}})
    (policy,), (bot,) = of_kind("NetworkPolicy", objects), of_kind("Deployment", objects)
    assert policy["spec"]["ingress"] == [{"from": [MONITORING], "ports": [{"port": "http", "protocol": "TCP"}]}]
    labels = bot["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert [port["name"] for port in bot["spec"]["template"]["spec"]["containers"][0]["ports"]] == ["http"]


def test_a_network_policy_that_names_nobody_lets_nobody_in() -> None:
    assert policies()[BOT]["ingress"] == []


@pytest.mark.parametrize(
    "values", [{"slack": {"mode": "http"}}, {"oncall": {"secretName": "a"}}, {"metrics": {"secretName": "a"}}]
)
def test_who_posts_to_the_bot_reaches_its_port_where_the_values_name_nobody(values: dict[str, Any]) -> None:
    assert policies(values)[BOT]["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]
    assert "networkPolicy.from" in rendered(values)["NOTES.txt"]


def test_network_policies_can_be_switched_off() -> None:
    assert policies({**CHANGING, "networkPolicy": {"enabled": False}}) == {}


# ------------------------------------------------------------------------------------------------------------- image


def test_an_image_with_a_digest_is_pulled_by_it() -> None:
    digest = f"sha256:{'ab' * 32}"
    pulled = pods(manifests({**CHANGING, "image": {"repository": "r.example/bot", "tag": "1.2", "digest": digest}}))
    assert {container["image"] for pod in pulled for container in pod["containers"]} == {f"r.example/bot@{digest}"}
    assert len(pulled) == 2


def test_an_image_without_a_digest_is_pulled_by_its_tag() -> None:
    (pod,) = pods(manifests({"image": {"repository": "r.example/bot", "tag": "1.2"}}))
    assert pod["containers"][0]["image"] == "r.example/bot:1.2"


def test_logs_of_workloads_are_read_only_in_the_namespaces_that_the_values_name() -> None:
    named = manifests({"workloadLogs": {"namespaces": ["ml", "vision"]}})
    reading = {rule.namespace for rule in granted(named, BOT) if rule.resources == ["pods/log"]}
    assert reading == {"hami-system", "ml", "vision"}
    assert environment(named)["HAMI_BOT_WORKLOAD_LOGS"]["value"] == "true"
    assert {rule.namespace for rule in granted(manifests(), BOT) if rule.resources == ["pods/log"]} == {"hami-system"}
    assert "HAMI_BOT_WORKLOAD_LOGS" not in environment(manifests())


EVERY_ROLE = {**PROXYING, "workloadLogs": {"namespaces": ["ml"]}}


def by_name(objects: list[Manifest]) -> dict[str, Manifest]:
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in objects}


def role(name: str) -> set[str]:
    return {f"Role/{name}", f"RoleBinding/{name}"}


@pytest.mark.parametrize(
    ("off", "gone", "differs"),
    [
        (
            {"rbac": {"cluster": {"enabled": False}}},
            {"ClusterRole/hami-bot-default-read", "ClusterRoleBinding/hami-bot-default-read"},
            set[str](),
        ),
        ({"rbac": {"hami": {"enabled": False}}}, role("hami-bot-read"), set[str]()),
        (
            {"changes": {"enabled": False}},
            role("hami-bot-change")
            | role("hami-bot-lease")
            | role(DEAD_MAN)
            | {f"ServiceAccount/{DEAD_MAN}", f"CronJob/{DEAD_MAN}", f"NetworkPolicy/{DEAD_MAN}"},
            {"Role/hami-bot-pods-proxy"},  # `update`, which only a change needs
        ),
        ({"podsProxy": {"enabled": False}}, role("hami-bot-pods-proxy"), {f"Role/{DEAD_MAN}"}),
        ({"workloadLogs": {"namespaces": []}}, role("hami-bot-workload-logs"), {"Deployment/hami-bot"}),  # its setting
    ],
    ids=["cluster", "hami", "changes", "podsProxy", "workloadLogs"],
)
def test_a_value_that_is_off_takes_its_roles_away_and_nothing_else(
    off: dict[str, Any], gone: set[str], differs: set[str]
) -> None:
    full, fewer = by_name(manifests(EVERY_ROLE)), by_name(manifests(EVERY_ROLE | off))
    assert full.keys() - fewer.keys() == gone
    assert {name for name, one in fewer.items() if one != full[name]} == differs


def test_the_notes_say_where_roles_of_your_own_are_needed() -> None:
    own = rendered({"rbac": {"hami": {"enabled": False}}})["NOTES.txt"]
    assert own.startswith("This chart makes not all roles for reading")
    assert rendered()["NOTES.txt"].startswith("hami-bot reads hami-system")


def test_playbooks_of_a_config_map_are_in_the_folder_that_the_settings_name() -> None:
    objects = manifests({"playbooks": {"configMap": "questions"}})
    (bot,) = of_kind("Deployment", objects)
    spec = bot["spec"]["template"]["spec"]
    folder = environment(objects)["HAMI_BOT_PLAYBOOKS__FOLDER"]["value"]
    assert {"name": "playbooks", "configMap": {"name": "questions"}} in spec["volumes"]
    assert {"name": "playbooks", "mountPath": folder, "readOnly": True} in spec["containers"][0]["volumeMounts"]
    assert "HAMI_BOT_PLAYBOOKS__FOLDER" not in environment(manifests())


def test_every_value_has_a_use() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [name for name in values if f".Values.{name}" not in templates] == []


def test_the_package_for_a_registry_holds_all_that_the_templates_read(tmp_path: Path) -> None:
    with tarfile.open(helm.package(CHART, destination=tmp_path)) as package:
        packed = {name.removeprefix("hami-bot/") for name in package.getnames()}
    assert packed == {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}


def test_the_charts_own_page_installs_as_the_manual_does_and_names_values_that_exist() -> None:
    page, manual = (CHART / "README.md").read_text(), (DOCS / "install.md").read_text()
    commands = re.findall(r"^    (?:kubectl|helm) .*", page, re.MULTILINE)
    assert len(commands) == 3
    assert all(command in manual for command in commands)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE):
        for name in re.findall(r"`([\w.]+)`", row):
            found = values
            for part in name.split("."):
                found = found[part]


# ------------------------------------------------------------------------------------------------- values.schema.json


SETTINGS = [
    yaml.safe_load(text.replace("…", "xxxx"))
    for text in re.findall(
        r"```yaml\n(.*?)```", "".join((DOCS / page).read_text() for page in ("settings.md", "oncall.md")), re.DOTALL
    )
]
FULL = [
    {"settings": one | ({"oncall": ONCALL | one["oncall"]} if "oncall" in one else {})}
    for one in SETTINGS
    if set(one) <= set(Settings.model_fields)
]


@pytest.mark.parametrize("values", [*VALUES.values(), *FULL])
def test_the_schema_of_the_values_takes_what_the_chart_takes(values: dict[str, Any]) -> None:
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(chart.merge_values(values))


@pytest.mark.parametrize(
    ("values", "about"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"slack": {"mode": "carrier-pigeon"}}, "mode"),
        ({"changes": {"enabled": "yes"}}, "enabled"),
        ({"hami": {"namespace": "Kube_System"}}, "namespace"),
        ({"store": {"persistence": {"size": "one gig"}}}, "size"),
        ({"image": {"digest": "1.2.3"}}, "digest"),
        ({"networkPolicy": {"ports": ["https"]}}, "ports"),
        ({"settings": {"languge": "zh"}}, "languge"),
        ({"settings": {"language": "de"}}, "language"),
        ({"settings": {"oncall": {"rota": ["U0123ABCD"]}}}, "channel"),
        ({"settings": {"oncall": {"channel": "gpu-oncall"}}}, "channel"),
        ({"settings": {"access": {"operators": ["ada"]}}}, "operators"),
        ({"settings": {"access": {"two_person": True}}}, "approvers"),
        ({"settings": {"profiles": {"longest_s": 600}}}, "longest_s"),
        ({"settings": {"oncall": {"channel": "C0123ABCD", "paging": {"webhook": {"url": "http://a.b"}}}}}, "webhook"),
        ({"settings": {"clusters": {"lab": {}}, "channels": {"C0123ABCD": {"cluster": "prod"}}}}, "prod"),
        ({"settings": {"clusters": {"lab": {}}, "oncall": {"channel": "C0123ABCD", "cluster": "prod"}}}, "prod"),
        ({"networkPolicy": {"ports": []}}, "ports"),  # in a policy no port means every port
    ],
)
def test_a_value_that_makes_no_sense_is_refused_before_anything_is_rendered(values: dict[str, Any], about: str) -> None:
    with pytest.raises(helm.HelmError, match=about):
        rendered(values)


def test_the_schema_knows_every_value_and_no_other() -> None:
    def keys(values: Any, path: str = "") -> set[str]:
        return {f"{path}{name}" for name in values} | {
            key for name, one in values.items() if isinstance(one, dict) for key in keys(one, f"{path}{name}.")
        }

    def properties(schema: Any, path: str = "") -> set[str]:
        return {
            key
            for name, one in schema.get("properties", {}).items()
            for key in {f"{path}{name}"} | properties(one, f"{path}{name}.")
        }

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    free = {key for key in keys(values) if key.startswith("resources.") or ".labels." in key}
    assert keys(values) - free == properties(schema) - {"global"}


# ------------------------------------------------------------------------------------------------ disruption budget


@pytest.mark.parametrize(("values", "budgets"), [({}, 0), (POSTGRES, 1)])
def test_several_replicas_are_drained_one_at_a_time_and_a_single_one_hinders_no_drain(
    values: dict[str, Any], budgets: int
) -> None:
    found = of_kind("PodDisruptionBudget", manifests(values))
    assert [item["spec"]["maxUnavailable"] for item in found] == [1] * budgets


# --------------------------------------------------------------------------------------------------------- metrics


MONITORED = {"metrics": {"secretName": "bot", "serviceMonitor": {"enabled": True, "labels": {"release": "prom"}}}}


def test_a_service_monitor_finds_the_bots_own_service_and_sends_the_token() -> None:
    objects = manifests(MONITORED | {"slack": {"mode": "http"}})
    (monitor,) = of_kind("ServiceMonitor", objects)
    (endpoint,) = monitor["spec"]["endpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = [
        object_["metadata"]["name"]
        for object_ in of_kind("Service", objects)
        if wanted <= object_["metadata"]["labels"].items()
    ]
    assert found == ["hami-bot"]
    assert monitor["metadata"]["labels"]["release"] == "prom"
    assert endpoint["authorization"]["credentials"] == {"name": "bot", "key": "token"}
    assert environment(objects)["HAMI_BOT_METRICS__TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "bot"


def test_a_service_monitor_without_a_token_is_refused() -> None:
    with pytest.raises(helm.HelmError, match="secretName"):
        rendered({"metrics": {"serviceMonitor": {"enabled": True}}})


def test_the_alerts_and_the_dashboard_are_made_where_the_values_ask_for_them() -> None:
    asked = {"prometheusRule": {"enabled": True, "labels": {"release": "prom"}}, "dashboard": {"enabled": True}}
    objects = manifests({"metrics": asked})
    (rule,), plain = of_kind("PrometheusRule", objects), yaml.safe_load(RULES.read_text())
    assert rule["metadata"]["labels"]["release"] == "prom"
    assert rule["spec"] == plain["spec"]
    (loaded,) = [object_ for object_ in of_kind("ConfigMap", objects) if "hami-bot.json" in object_["data"]]
    assert loaded["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(loaded["data"]["hami-bot.json"]) == json.loads(dashboard())
    assert of_kind("PrometheusRule", manifests()) == []
    assert len(of_kind("ConfigMap", manifests())) == 1


# ------------------------------------------------------------------------------------------- what is made of the chart


@pytest.mark.parametrize(
    ("file", "made"), [(RULES, rules_manifest), (DASHBOARD, dashboard), (VALUES_SCHEMA, values_schema)]
)
def test_what_is_made_of_the_chart_is_what_update_docs_makes(file: Path, made: Callable[[], str]) -> None:
    assert file.read_text(encoding="utf-8") == made()


def test_the_plain_manifest_is_what_the_chart_installs() -> None:
    assert (CHART.parent / "install.yaml").read_text() == install_manifest()
