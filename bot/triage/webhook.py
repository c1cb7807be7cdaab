"""Reads what Alertmanager (webhook, version 4) and Grafana's alerting (version 1) post as alerts, and finds the
outbreaks of an alert. Whoever has the secret may send anything: nothing is trusted.

The shape is that of `template.Data` in prometheus/alertmanager, `notify/webhook` adding `version`, `groupKey` and
`truncatedAlerts`; Grafana's webhook notifier adds links to each alert's panel and dashboard. Outbreaks of an alert come
one after the other, and only the newest may be firing. Alertmanager names an alert by its fingerprint alone. Its
`startsAt` says little: while an alert fires it moves to the earliest that any Prometheus saw, and an alert that ended
because Alertmanager heard nothing (`resolve_timeout`) comes back with the start it had.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from bot.report import Severity
from bot.triage.cause import level_of

LARGEST_BODY = 4 * 1024 * 1024
"""The largest request, in bytes. A group of alerts is one request; an alert with annotations has about 1 kB."""
MOST_ALERTS = 10_000
_MOST_CUT = 1_000_000
_LONGEST_TEXT = 2000
_LABEL = 255
_LONGEST_SEVERITY = 64
_FINGERPRINT = re.compile(r"[0-9A-Za-z]{1,64}")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_KEPT_ANNOTATIONS = ("summary", "description", "message")
_LONGEST_LINK = 500
_LONGEST_GRAPH = 2000
"""The longest link to a graph: Prometheus writes the whole expression of the alert into it."""
_LINK = re.compile(r"https?://[\x21-\x7e]+")
_GRAPH = "generatorURL"

# Of whom the alert is, the first of these that is there: an exporter's own pod stands in `pod`, and the pod that it
# measured in `exported_pod`, unless the scrape has honorLabels; HAMi before 2.9 has names of its own for it.
_MEASURED = (
    ("exported_namespace", "exported_pod"), ("exported_namespace", "pod_name"), ("podnamespace", "podname"),
    ("pod_namespace", "pod_name"),
)  # fmt: skip
_NAMESPACES = ("exported_namespace", "podnamespace", "quotanamespace", "namespace")
_NODES = ("exported_node", "nodename", "nodeid", "node", "Hostname", "kubernetes_io_hostname")
_PLACES = ("host", "instance", "server", "target", "machine", "computer", "fqdn")
"""Labels that may hold a node's name or address, or something else."""
_GPUS = ("uuid", "deviceuuid", "gpuuuid", "dcgmfidevuuid")
_OWNERS = (
    ("deployment", "deploy"), ("statefulset", "sts"), ("daemonset", "ds"), ("job_name", "job"), ("replicaset", "rs"),
    ("cronjob", "cronjob"),
)  # fmt: skip
"""Labels of kube-state-metrics that name what owns pods, with the kinds as `why` takes them."""
_OTHERS = ("persistentvolumeclaim", "persistentvolume", "horizontalpodautoscaler", "poddisruptionbudget", "ingress")
"""Labels that name what the bot knows nothing of, whoever measured it."""
_PREFIX = re.compile("^(?:k8s|kubernetes|kube)(?!io)")
_SCRAPED = ("job", "service")
"""Labels that name what was scraped; its pods have that name in theirs."""
_MEASURES = re.compile(r"exporter|kube-state-metrics|cadvisor|node-problem-detector")
_TELLS_OF_PODS = re.compile(r"kube-state-metrics|kubelet|cadvisor")

ALERTMANAGER = "alertmanager"

Status = Literal["firing", "resolved"]


class Alert(msgspec.Struct, frozen=True):
    """One alert; `source` and `fingerprint` name it, however often it is sent. `starts_at` and, once the alert is over,
    `ends_at` are RFC 3339 in UTC, else empty; `namespace`, `pod` and `node` are names of Kubernetes or empty.
    `severity` is the label as it is, `level` what it is taken for; `runbook` is an http(s) address or empty. `cut` is
    how many more alerts of its group were left out of the request that it came with.
    """

    fingerprint: str
    starts_at: str
    status: Status
    name: str
    level: Severity
    cluster: str
    namespace: str
    pod: str
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    source: str = ALERTMANAGER
    ends_at: str = ""
    severity: str = ""
    runbook: str = ""
    cut: int = 0

    @property
    def owner(self) -> str:
        """The workload that the alert names, as the verb `why` takes it (`ml/deploy/vllm`), or empty."""
        kinds, labels = dict(_OWNERS), _plain(self.labels)
        if kind := kinds.get(labels.get("workloadtype", "").lower().replace("job", "job_name")):
            kinds = {"workload": kind}
        named = ((kind, first_named(labels, (f"exported_{label}", label))) for label, kind in kinds.items())
        return next((f"{self.namespace}/{kind}/{name}" for kind, name in named if name and self.namespace), "")

    @property
    def gpu(self) -> str:
        """The UUID of the GPU that the alert names, or empty."""
        labels = _plain(self.labels)
        return next((labels[name] for name in _GPUS if labels.get(name)), "")

    @property
    def quota(self) -> str:
        """What the quota counts that the alert is about (`nvidia.com/gpu`), or empty; HAMi may know nothing of it."""
        return _quota(_plain(self.labels))

    @property
    def places(self) -> tuple[str, ...]:
        """What may be the name or address of the alert's node; only the cluster knows which is."""
        labels = _plain(self.labels)
        if any(name in labels for name in _OTHERS):
            return ()
        said = [text.partition("://")[2] or text for text in (labels.get(name, "").lower() for name in _PLACES)]
        # Those after the first may be of the exporter. A host may be called in capitals, a node never.
        named = next((labels[name].lower() for name in _NODES if labels.get(name)), "")
        hosts = [named, *(text.partition("/")[0].rpartition(":")[0] or text for text in said)]
        return tuple(dict.fromkeys(filter(None, (*hosts, *(host.partition(".")[0] for host in hosts)))))

    @property
    def graph(self) -> str:
        """The http(s) address of the alert's panel, or else of its expression, or empty; kept as an annotation."""
        return self.annotations.get(_GRAPH, "")


class WrongBody(ValueError):  # noqa: N818  # what it is
    """A request's body is no webhook of version 4 or 1. The message repeats nothing of what was sent."""


class _Alert(msgspec.Struct):
    status: Status
    labels: dict[str, str]
    annotations: dict[str, str] = {}
    startsAt: str = ""  # noqa: N815  # Alertmanager's name
    endsAt: str = ""  # noqa: N815  # of one that fires it is the year 1
    generatorURL: str = ""  # noqa: N815
    fingerprint: str = ""
    panelURL: str = ""  # noqa: N815  # this and the next are Grafana's
    dashboardURL: str = ""  # noqa: N815


class _Notification(msgspec.Struct):
    version: Literal["4", "1"]
    alerts: list[_Alert]
    truncatedAlerts: int = 0  # noqa: N815


def read_alerts(body: bytes) -> list[Alert]:
    """The alerts in a request's body. Raises WrongBody."""
    try:
        data = msgspec.json.decode(body, type=_Notification)
    except msgspec.ValidationError as error:
        _, at, place = str(error).rpartition(" - at ")  # the place alone: the rest may quote the body
        where = place[:100] if at else "a required field is missing"
        raise WrongBody(f"no webhook of version 4 (Alertmanager) or 1 (Grafana): {where}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongBody("the body is no JSON") from error
    if len(data.alerts) > MOST_ALERTS:
        raise WrongBody(f"more than {MOST_ALERTS:,} alerts in one request")
    cut = min(max(data.truncatedAlerts, 0), _MOST_CUT)
    return [_read(alert, cut) for alert in data.alerts]


def fingerprint_of(labels: Mapping[str, str]) -> str:
    """A fingerprint made of the labels, for an alert that comes without one."""
    return hashlib.sha256(msgspec.json.encode(sorted(labels.items()))).hexdigest()[:32]


def _plain(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels, and each under kube-state-metrics' name (for OpenTelemetry's `k8s_pod_name`, for `kube_job`)."""
    return {**{_plain_name(label): value for label, value in labels.items()}, **labels}


@lru_cache(maxsize=4096)
def _plain_name(label: str) -> str:
    letters = _PREFIX.sub("", re.sub(r"[^a-z0-9]", "", label.lower()))
    named = letters.removesuffix("name") or letters
    return "job_name" if named == "job" and letters != label else named


def first_named(labels: Mapping[str, str], names: Sequence[str]) -> str:
    """The value of the first of the labels `names` that holds a name of Kubernetes, or empty."""
    return next((labels[name] for name in names if _NAME.fullmatch(labels.get(name, ""))), "")


def _quota(labels: Mapping[str, str]) -> str:
    """By kube-state-metrics' labels, or HAMi's `quotaName` (2.7) and `quota_name` (2.9)."""
    counted = labels.get("resource" if "resourcequota" in labels else "quota", "")
    return counted.removeprefix("requests.").removeprefix("limits.") if "/" in counted else ""


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    for names in _MEASURED:
        namespace, pod = (first_named(labels, (name,)) for name in names)
        if namespace and pod:
            return namespace, pod
    namespace, pod = (first_named(labels, (name,)) for name in ("namespace", "pod"))
    return (
        (namespace, pod) if namespace and pod and not _only_measures(labels) else (first_named(labels, _NAMESPACES), "")
    )


def _only_measures(labels: Mapping[str, str]) -> bool:
    """Whether `pod` was only scraped, as an exporter's is; a program's that tells of itself is the alert's subject."""
    pod, scraped = labels["pod"], [labels.get(name, "").rpartition("/")[2] for name in _SCRAPED]
    names_other = any(labels.get(name) for name in (*_NODES, *_GPUS, *(label for label, _ in _OWNERS)))
    names_other = names_other or bool(_quota(labels))
    measures = bool(_MEASURES.search(pod)) or (names_other and pod.startswith("hami-"))
    if any(name and name in pod for name in scraped):
        return measures or names_other
    return measures and not any(_TELLS_OF_PODS.search(name) for name in scraped)


def _read(alert: _Alert, cut: int) -> Alert:
    labels = {_storable(name, _LABEL): _storable(value, _LABEL) for name, value in alert.labels.items()}
    kept = {
        name: _storable(alert.annotations[name], _LONGEST_TEXT)
        for name in _KEPT_ANNOTATIONS
        if name in alert.annotations
    }
    links = (_link(url, _LONGEST_GRAPH) for url in (alert.panelURL, alert.dashboardURL, alert.generatorURL))
    if graph := next(filter(None, links), ""):
        kept[_GRAPH] = graph
    plain = _plain(labels)
    namespace, pod = _pod(plain)
    given = alert.fingerprint if _FINGERPRINT.fullmatch(alert.fingerprint) else fingerprint_of(labels)
    return Alert(
        given,
        _moment(alert.startsAt),
        alert.status,
        labels.get("alertname", "") or "alert",
        level=level_of(labels.get("severity", "")) or "warning",
        cluster=labels.get("cluster", ""),
        namespace=namespace,
        pod=pod,
        node="" if any(name in plain for name in _OTHERS) else first_named(plain, _NODES),
        labels=labels,
        annotations=kept,
        ends_at=_moment(alert.endsAt) if alert.status == "resolved" else "",
        severity=labels.get("severity", "")[:_LONGEST_SEVERITY],
        runbook=_link(alert.annotations.get("runbook_url", ""), _LONGEST_LINK),
        cut=cut,
    )


def _link(text: str, most: int) -> str:
    """The address if it is one that a browser may be sent to: http or https, in printable ASCII, not too long."""
    if len(text) > most or not _LINK.fullmatch(text):
        return ""
    try:
        parts = urlsplit(text)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port or an IPv6 address that is none
        is_address = False
    return text if is_address else ""


def _storable(text: str, most: int) -> str:
    """The text as every database takes it: PostgreSQL refuses a NUL, and all of them half a surrogate pair."""
    return text.encode(errors="replace").decode().replace("\0", "")[:most]


def _moment(text: str) -> str:
    try:
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if read.tzinfo else ""
    except (ValueError, OverflowError):
        return ""


REPEATED_S = 120.0
"""Seconds after an alert's end in which the same start is a late repetition: the other Alertmanager of a pair waits
`--cluster.peer-timeout` (15 s) for each before it, and a lost answer is tried again. After it, the alert is back."""
NOTED_S = 300.0
"""Seconds that must pass before it is noted again that a firing alert was heard of."""


class Outbreak(NamedTuple):
    """One time that an alert fires. `number` counts an alert's outbreaks from 1. Starts and ends are RFC 3339 in UTC or
    empty, the others seconds since 1970: `heard_at` when it was last said to fire, `changed_at` when its status last
    changed. `silent`: it ended because nothing was heard of it.
    """

    number: int
    status: Literal["firing", "resolved", "silent"]
    starts_at: str
    ends_at: str
    heard_at: float
    changed_at: float


def hear(known: Outbreak | None, said: Alert, at: float) -> Outbreak | None:
    """The alert's outbreak after `said` was heard at `at` (unix seconds); None if `known` is unchanged."""
    if known is not None and said.status == "resolved":
        ended = last_moment(said)
        if known.status != "firing" or (ended and ended < known.starts_at):
            return None  # over already, or the end of an outbreak before this one
        return known._replace(status="resolved", ends_at=ended, changed_at=at)
    if known is not None and known.status == "firing":
        starts_at = min(said.starts_at or known.starts_at, known.starts_at or said.starts_at)
        if starts_at == known.starts_at and at - known.heard_at < NOTED_S:
            return None
        return known._replace(starts_at=starts_at, heard_at=at)
    if known is not None and known.status == "resolved":
        since_the_end = bool(known.ends_at) and said.starts_at > known.ends_at
        if not since_the_end and at - known.changed_at <= REPEATED_S:
            return None
    ends_at = last_moment(said) if said.status == "resolved" else ""
    return Outbreak(known.number + 1 if known else 1, said.status, said.starts_at, ends_at, at, at)


def last_moment(said: Alert) -> str:
    """The alert's end if it is over, else its start; RFC 3339 in UTC or empty. An end before the start is ignored."""
    return max(said.starts_at, said.ends_at) if said.status == "resolved" else said.starts_at
