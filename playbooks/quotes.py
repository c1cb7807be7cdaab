"""Quotes with their object, time and the command that shows them again."""

import re
import shlex
from itertools import chain

import msgspec

from bot.hami.names import Names
from bot.hami.pods.allocations import given
from bot.hami.scheduler_logs.log_lines import NEEDLE, LogLine, ThrottledRequest
from bot.hami.vendors import FIRST, NAMES, vendor_of_made_up_card, vendor_of_register_key
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import Condition, DaemonPod, Event, Holder, Node, ObjectMeta, Pod, Resource
from bot.kube.recording.redact import masked
from bot.kube.times import format_time, parse_time
from bot.report import Evidence


class PodSays(Evidence, frozen=True):
    """What a pod says of itself: pods that say something else have another cause. Not its name, nor an amount."""


class PodAsks(Evidence, frozen=True):
    """How much a pod asks for."""


REPLICA_FAILURE = "ReplicaFailure"
"""The condition of a ReplicaSet or Deployment that says why no pod is created."""
_LONGEST = 4000
"""Of a longer text the beginning is quoted: an annotation may have 256 KiB."""
_ANNOTATIONS = re.compile(r",? annotations?(?: is|:|=)? ?map\[[\s\S]*", re.IGNORECASE)
"""All annotations of a pod, as HAMi's device plugin logs them when it allocates (HAMi v2.10.0 server.go, `Allocate pod
name is`). `kubectl apply` keeps the whole manifest in one of them."""


def shown(text: str) -> str:
    """What another program wrote, as a channel may see it: no credentials, no list of a pod's annotations, cut."""
    return masked(_ANNOTATIONS.sub("", text.rstrip("\n")), _LONGEST)


def kubectl(*words: str) -> str:
    """A command to copy. Names are quoted where a shell would read more into them: a recording may hold any."""
    return " ".join(("kubectl", *map(_quoted, words)))


def kubectl_pod(pod: Pod, verb: str, *more: str) -> str:
    """A kubectl command about one pod: `kubectl_pod(pod, "get", "-o", "yaml")`."""
    return kubectl("-n", pod.namespace, verb, "pod", pod.name, *more)


def let_read_logs(namespace: str) -> str:
    """The commands that let the bot read users' logs in one namespace alone: the chart's Role by its usual names."""
    name, create = "hami-bot-workload-logs", ("-n", namespace, "create")
    role = kubectl(*create, "role", name, "--verb=get", "--resource=pods/log")
    binding = kubectl(*create, "rolebinding", name, f"--role={name}", "--serviceaccount=hami-bot:hami-bot")
    return f"{role} && {binding}"


def _quoted(word: str) -> str:
    option, equals, value = word.partition("=")
    return f"{option}={shlex.quote(value)}" if equals and option == "jsonpath" else shlex.quote(word)


def clock(text: str | None) -> str | None:
    """An API time as reports write it, None when there is none."""
    moment = parse_time(text)
    return format_time(moment) if moment else None


def of_event(event: Event) -> Evidence:
    """The event's message; of a condition that stands for one, the condition's."""
    about = event.involved_object
    namespace = about.namespace or event.namespace
    look = ("get", "events", "--field-selector", f"involvedObject.name={about.name}")
    standing = event.reason == REPLICA_FAILURE
    if standing:
        path = f'jsonpath={{.status.conditions[?(@.type=="{REPLICA_FAILURE}")].message}}'
        look = ("get", about.kind.lower(), about.name, "-o", path)
    return Evidence(
        source="condition" if standing else "event",
        object=f"{about.kind} {namespace}/{about.name}",
        at=clock(event.seen_at),
        quote=shown(event.message),
        command=kubectl("-n", namespace, *look),
    )


def of_condition(pod: Pod, condition: Condition, at: str | None) -> Evidence:
    """The condition's message."""
    return Evidence(
        source="condition",
        object=pod_name(pod),
        at=at,
        quote=shown(condition.message or condition.reason),
        command=_pod_path(pod, f'{{.status.conditions[?(@.type=="{condition.type}")].message}}'),
    )


def of_pod(pod: Pod, quote: str, path: str) -> Evidence:
    """A value of the pod's own; `path` is the JSONPath that shows it. An empty one is shown by the pod's name."""
    return _of_pod(PodSays, pod, quote, path) if quote.strip() else of_pod_name(pod)


def of_pod_name(pod: Pod) -> Evidence:
    """The pod's name, where nothing else shows that it is there."""
    return _of_pod(Evidence, pod, pod.name, "{.metadata.name}")


def of_pod_age(pod: Pod) -> Evidence:
    """When the pod was created."""
    return _of_pod(Evidence, pod, pod.metadata.creation_timestamp or "", "{.metadata.creationTimestamp}")


def of_amount(pod: Pod, value: str, path: str) -> Evidence:
    """How much of something the pod asks for. An empty one is shown by the pod's name."""
    return _of_pod(PodAsks, pod, value, path) if value.strip() else of_pod_name(pod)


def _of_pod(kind: type[Evidence], pod: Pod, quote: str, path: str) -> Evidence:
    return kind(
        source="pod",
        object=pod_name(pod),
        at=clock(pod.metadata.creation_timestamp),
        quote=shown(quote),
        command=_pod_path(pod, path),
    )


def of_pod_annotation(pod: Pod, key: str) -> Evidence:
    """An annotation of the pod."""
    value = pod.metadata.annotation(key) or ""
    return of_pod(pod, value, _annotation_path(key))


def of_pod_label(pod: Pod, key: str) -> Evidence:
    """A label of the pod."""
    return of_pod(pod, pod.metadata.label(key) or "", f"{{.metadata.labels.{_escape(key)}}}")


def of_holder(pod: Pod | Holder) -> Evidence:
    """What HAMi gave the pod."""
    key, text = given(pod.metadata) or (FIRST.names.allocated[0], pod.name)
    return Evidence(
        source="pod",
        object=f"Pod {pod.namespace}/{pod.name}",
        at=clock(pod.metadata.creation_timestamp),
        quote=shown(text or pod.name),
        command=kubectl("-n", pod.namespace, "get", "pod", pod.name, "-o", f"jsonpath={_annotation_path(key)}"),
    )


def of_resource(pod: Pod, resource: str, value: str, *, kind: str = "containers", of: str = "limits") -> Evidence:
    """What some container of the pod asks for, as written. `kind` and `of`: where in the pod that stands."""
    return of_amount(pod, value, f"{{.spec.{kind}[*].resources.{of}.{_escape(resource)}}}")


def of_card(node: Node, uuid: str, *, whole: bool = False) -> Evidence:
    """A card by its UUID where the node registers it; `whole`: all that is registered of it."""
    texts = node.metadata.annotations or {}
    keys = (key for key, text in texts.items() if uuid in text and vendor_of_register_key(key))
    key = next(keys, "")
    if not key and (names := vendor_of_made_up_card(node.name, uuid)):
        return _of_cards(node, names)
    key = key or FIRST.names.register
    return of_node_annotation(node, key, entry_of(texts.get(key, ""), uuid) if whole else uuid)


def of_cards(node: Node) -> Evidence:
    """What the node's cards are known by."""
    texts, amounts = node.metadata.annotations or {}, node.status.capacity or {}
    registers = (names.of(word) for key in texts for names, word in filter(None, (vendor_of_register_key(key),)))
    counted = (names for names in NAMES if not names.register and names.capacity in amounts)
    return _of_cards(node, next(chain(registers, counted), FIRST.names))


def _of_cards(node: Node, names: Names) -> Evidence:
    if names.register:
        return of_node_annotation(node, names.register, node.metadata.annotation(names.register) or "")
    amount = str((node.status.capacity or {}).get(names.capacity, ""))
    return of_node(node, amount, f"{{.status.capacity.{_escape(names.capacity)}}}")


def entry_of(text: str, uuid: str) -> str:
    """The part of a registration that is about one card, as written; the uuid where none can be told apart."""
    if text.lstrip().startswith("["):
        entries = (bytes(raw).decode() for raw in msgspec.json.decode(text.encode(), type=list[msgspec.Raw]))
    else:
        entries = (f"{key}:" for key in text.split(":"))
    return next((entry for entry in entries if uuid in entry), uuid)


def of_node(node: Node, quote: str, path: str) -> Evidence:
    """A value of the node. An empty one is shown by the node's name."""
    if not quote.strip():
        quote, path = node.name, "{.metadata.name}"
    return Evidence(
        source="node", object=f"Node {node.name}", at=None, quote=shown(quote), command=_node_path(node.name, path)
    )


def of_node_annotation(node: Node, key: str, quote: str) -> Evidence:
    """A part of an annotation of the node."""
    return of_node(node, quote, _annotation_path(key))


def of_label(node: Node, key: str) -> Evidence:
    """A label of the node."""
    return of_node(node, node.metadata.label(key) or "", f"{{.metadata.labels.{_escape(key)}}}")


def of_allocatable(node: Node, resource: str) -> Evidence:
    """How much of a resource kubelet offers there."""
    value = (node.status.allocatable or {}).get(resource, "")
    return of_node(node, str(value), f"{{.status.allocatable.{_escape(resource)}}}")


def of_log(line: LogLine, scheduler: Pod, about: Pod) -> Evidence:
    """A line of the extender's log about a pod."""
    return of_words(line, scheduler, about.name)


def of_words(line: LogLine, scheduler: Pod, words: str) -> Evidence:
    """A line of the extender's log that has these words."""
    return _of_extender(scheduler, line.raw, words, format_time(line.at) if line.at else None)


def of_wait(wait: ThrottledRequest, scheduler: Pod) -> Evidence:
    """A request that the extender of this pod held back."""
    return _of_extender(scheduler, wait.line, NEEDLE, None)


def _of_extender(scheduler: Pod, line: str, words: str, at: str | None) -> Evidence:
    """The command has no `--since`: the line stands there for as long as the log is kept."""
    log = kubectl("-n", scheduler.namespace, "logs", scheduler.name, "-c", EXTENDER_CONTAINER)
    about = f"Pod {scheduler.namespace}/{scheduler.name} container {EXTENDER_CONTAINER}"
    return Evidence("scheduler log", about, at, shown(line), f"{log} | grep {shlex.quote(words)}")


def extender_log(namespace: str, scheduler: str, about: str) -> str:
    """The command that shows what the extender of a scheduler pod has logged of late about a pod."""
    log = kubectl("-n", namespace, "logs", scheduler, "-c", EXTENDER_CONTAINER, "--since=1h")
    return f"{log} | grep {shlex.quote(about)}"


def pod_name(pod: Pod) -> str:
    return f"Pod {pod.namespace}/{pod.name}"


def _annotation_path(key: str) -> str:
    return f"{{.metadata.annotations.{_escape(key)}}}"


def _escape(key: str) -> str:
    return key.replace(".", "\\.")


def _pod_path(pod: Pod, path: str) -> str:
    return kubectl_pod(pod, "get", "-o", f"jsonpath={path}")


def _node_path(name: str, path: str) -> str:
    return kubectl("get", "node", name, "-o", f"jsonpath={path}")


def of_plugin(pod: DaemonPod, why: str) -> Evidence:
    """What the status of a device plugin's pod says; its phase or its name where it gives no reason."""
    command = kubectl("-n", pod.namespace, "get", "pod", pod.name, "-o", "jsonpath={.status}")
    quote = shown(why or pod.status.phase or pod.name)
    return Evidence("pod", f"Pod {pod.namespace}/{pod.name}", clock(pod.metadata.creation_timestamp), quote, command)


def of_object(kind: str, resource: Resource, quote: str, path: str) -> Evidence:
    """A value of an object of HAMi's; `path` is the JSONPath that shows it. An empty one is shown by the name."""
    if not quote.strip():
        quote, path = resource.name, "{.metadata.name}"
    return Evidence(
        source=kind.lower(),
        object=f"{kind} {_full_name(resource.metadata)}",
        at=None,
        quote=shown(quote),
        command=kubectl(*_where(resource.metadata), "get", kind.lower(), resource.name, "-o", f"jsonpath={path}"),
    )


def _full_name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _where(metadata: ObjectMeta) -> tuple[str, ...]:
    return ("-n", metadata.namespace) if metadata.namespace else ()
