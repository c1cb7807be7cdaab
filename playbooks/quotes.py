"""Makes evidence: a quote with the object that says it, the time, and the command that shows it again."""

import re
import shlex
from datetime import datetime
from itertools import chain

import msgspec

from bot.hami.names import Names
from bot.hami.pods.allocations import given
from bot.hami.scheduler_logs.log_lines import NEEDLE, LogLine, ThrottledRequest
from bot.hami.vendors import FIRST, NAMES, vendor_of_made_up_card, vendor_of_register_key
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import Condition, Container, DaemonPod, Event, Holder, Node, Pod, Resource
from bot.kube.models.pods import EnvVar
from bot.kube.recording.redact import masked
from bot.kube.times import format_time, parse_time
from bot.report import Evidence


class PodSays(Evidence, frozen=True):
    """A quote of a pod's own state: pods with other such quotes have other causes, unlike with names or amounts."""


class PodAsks(Evidence, frozen=True):
    """A quote of how much a pod asks for."""


REPLICA_FAILURE = "ReplicaFailure"
"""The condition of a ReplicaSet or Deployment that says why no pod is created."""
_LONGEST = 4000
"""The most characters that are quoted, from the beginning: an annotation may have 256 KiB."""
_ANNOTATIONS = re.compile(r",? annotations?(?: is|:|=)? ?map\[[\s\S]*", re.IGNORECASE)
"""A pod's annotations, as HAMi's device plugin logs them (HAMi v2.10.0 server.go, `Allocate pod name is`). `kubectl
apply` keeps the whole manifest in one of them.
"""


def shown(text: str) -> str:
    """Another program's text as a channel may see it: cut, without credentials and lists of annotations."""
    return masked(_ANNOTATIONS.sub("", text.rstrip("\n")), _LONGEST)


def kubectl(*words: str) -> str:
    """A kubectl command to copy. Words are quoted for a shell, since names in a recording may hold anything."""
    return " ".join(("kubectl", *map(_quoted, words)))


def kubectl_pod(pod: Pod | Holder | DaemonPod, verb: str, *more: str) -> str:
    """A kubectl command about one pod: `kubectl_pod(pod, "get", "-o", "yaml")`."""
    return kubectl("-n", pod.namespace, verb, "pod", pod.name, *more)


def kubectl_logs(pod: Pod | Holder | DaemonPod, container: str, *options: str) -> str:
    """A kubectl command for the log of a container: `kubectl_logs(pod, "main", "--tail=200")`."""
    return kubectl("-n", pod.namespace, "logs", pod.name, "-c", container, *options)


def kubectl_pods_on(node: str) -> str:
    """A kubectl command that lists the pods of a node."""
    return kubectl("get", "pods", "-A", "-o", "wide", "--field-selector", f"spec.nodeName={node}")


def kubectl_exec(pod: Pod, container: str, *words: str) -> str:
    """A kubectl command that runs a program in a container: `kubectl_exec(pod, "main", "printenv")`."""
    return kubectl("-n", pod.namespace, "exec", pod.name, "-c", container, "--", *words)


def let_read_logs(namespace: str) -> str:
    """The commands that let the bot read users' logs in this namespace alone: the chart's Role with its usual names."""
    name, create = "hami-bot-workload-logs", ("-n", namespace, "create")
    role = kubectl(*create, "role", name, "--verb=get", "--resource=pods/log")
    binding = kubectl(*create, "rolebinding", name, f"--role={name}", "--serviceaccount=hami-bot:hami-bot")
    return f"{role} && {binding}"


def _quoted(word: str) -> str:
    option, equals, value = word.partition("=")
    return f"{option}={shlex.quote(value)}" if equals and option == "jsonpath" else shlex.quote(word)


def clock(text: str | None) -> str | None:
    """A time of the API as reports write it; None for a text that is no time."""
    moment = parse_time(text)
    return format_time(moment) if moment else None


def of_event(event: Event) -> Evidence:
    """Quotes an event's message; for an event that stands for a ReplicaFailure condition, that condition's."""
    about = event.involved_object
    namespace = about.namespace or event.namespace
    look = ("get", "events", "--field-selector", f"involvedObject.name={about.name}")
    standing = event.reason == REPLICA_FAILURE
    if standing:
        path = f'jsonpath={{.status.conditions[?(@.type=="{REPLICA_FAILURE}")].message}}'
        look = ("get", about.kind.lower(), about.name, "-o", path)
    source, command = "condition" if standing else "event", kubectl("-n", namespace, *look)
    name, at = f"{about.kind} {namespace}/{about.name}", clock(event.seen_at)
    return Evidence(source, name, at, shown(event.message), command)


def of_condition(pod: Pod, condition: Condition, at: str | None) -> Evidence:
    """Quotes the message of a pod's condition."""
    command = _pod_path(pod, f'{{.status.conditions[?(@.type=="{condition.type}")].message}}')
    return Evidence("condition", pod_name(pod), at, shown(condition.message or condition.reason), command)


def of_pod(pod: Pod, quote: str, path: str) -> Evidence:
    """Quotes a value of the pod; `path` is the JSONPath that shows it. For an empty value it quotes the pod's name."""
    return _of_pod(PodSays, pod, quote, path) if quote.strip() else of_pod_name(pod)


def of_pod_name(pod: Pod) -> Evidence:
    """Quotes the pod's name, for where nothing else shows that the pod exists."""
    return _of_pod(Evidence, pod, pod.name, "{.metadata.name}")


def of_pod_age(pod: Pod) -> Evidence:
    """Quotes when the pod was created."""
    return _of_pod(Evidence, pod, pod.metadata.creation_timestamp or "", "{.metadata.creationTimestamp}")


def of_amount(pod: Pod, value: str, path: str) -> Evidence:
    """Quotes how much of something the pod asks for; for an empty value the pod's name."""
    return _of_pod(PodAsks, pod, value, path) if value.strip() else of_pod_name(pod)


def of_status(pod: Pod, quote: str, path: str, at: str | None) -> Evidence:
    """Quotes what the pod's status said at the time `at`."""
    return PodSays("pod", pod_name(pod), clock(at), shown(quote), _pod_path(pod, path))


def _of_pod(kind: type[Evidence], pod: Pod | Holder | DaemonPod, quote: str, path: str) -> Evidence:
    return kind("pod", pod_name(pod), clock(pod.metadata.creation_timestamp), shown(quote), _pod_path(pod, path))


def of_pod_annotation(pod: Pod, key: str) -> Evidence:
    """Quotes an annotation of the pod."""
    value = pod.metadata.annotation(key) or ""
    return of_pod(pod, value, _annotation_path(key))


def of_holder(pod: Pod | Holder) -> Evidence:
    """Quotes the annotation that says what HAMi gave the pod."""
    key, text = given(pod.metadata) or (FIRST.names.allocated[0], pod.name)
    return _of_pod(Evidence, pod, text or pod.name, _annotation_path(key))


def of_resource(pod: Pod, resource: str, value: str, *, kind: str = "containers", of: str = "limits") -> Evidence:
    """Quotes an amount in `limits` or `requests` (`of`) of the pod's `containers` or init ones (`kind`)."""
    return of_amount(pod, value, f"{{.spec.{kind}[*].resources.{of}.{escape(resource)}}}")


def of_card(node: Node, uuid: str) -> Evidence:
    """Quotes all that the node registers of a GPU."""
    texts = node.metadata.annotations or {}
    keys = (key for key, text in texts.items() if uuid in text and vendor_of_register_key(key))
    key = next(keys, "")
    if not key:
        names = vendor_of_made_up_card(node.name, uuid)
        return _of_cards(node, names) if names else of_cards(node)
    return of_node_annotation(node, key, entry_of(texts[key], uuid))


def of_cards(node: Node) -> Evidence:
    """Quotes the node's GPUs: its registration, or the capacity that they are counted by."""
    texts, amounts = node.metadata.annotations or {}, node.status.capacity or {}
    registers = (names.of(word) for key in texts for names, word in filter(None, (vendor_of_register_key(key),)))
    counted = (names for names in NAMES if not names.register and names.capacity in amounts)
    return _of_cards(node, next(chain(registers, counted), FIRST.names))


def _of_cards(node: Node, names: Names) -> Evidence:
    if names.register:
        return of_node_annotation(node, names.register, node.metadata.annotation(names.register) or "")
    return of_capacity(node, names.capacity)


def entry_of(text: str, uuid: str) -> str:
    """The part of a registration that is about one GPU, as written; the UUID if no part can be told apart."""
    if text.lstrip().startswith("["):
        entries = (bytes(raw).decode() for raw in msgspec.json.decode(text.encode(), type=list[msgspec.Raw]))
    else:
        entries = (f"{key}:" for key in text.split(":"))
    return next((entry for entry in entries if uuid in entry), uuid)


def of_node(node: Node, quote: str, path: str) -> Evidence:
    """Quotes a value of the node; for an empty value the node's name."""
    if not quote.strip():
        quote, path = node.name, "{.metadata.name}"
    return Evidence("node", f"Node {node.name}", None, shown(quote), kubectl("get", "node", node.name, "-o", _by(path)))


def of_node_annotation(node: Node, key: str, quote: str) -> Evidence:
    """Quotes a part of an annotation of the node."""
    return of_node(node, quote, _annotation_path(key))


def of_label(node: Node, key: str) -> Evidence:
    """Quotes a label of the node."""
    return of_node(node, node.metadata.label(key) or "", f"{{.metadata.labels.{escape(key)}}}")


def of_labels(node: Node) -> Evidence:
    """Quotes all labels of the node as kubectl shows them, for where one is missing."""
    labels = msgspec.json.encode(node.metadata.labels or {}, order="sorted").decode()
    return of_node(node, labels, "{.metadata.labels}")


def of_capacity(node: Node, resource: str) -> Evidence:
    """Quotes the node's capacity of a resource, as kubelet counts it."""
    value = (node.status.capacity or {}).get(resource, "")
    return of_node(node, str(value), f"{{.status.capacity.{escape(resource)}}}")


def of_allocatable(node: Node, resource: str) -> Evidence:
    """Quotes the node's allocatable amount of a resource, as kubelet offers it."""
    value = (node.status.allocatable or {}).get(resource, "")
    return of_node(node, str(value), f"{{.status.allocatable.{escape(resource)}}}")


def of_words(line: LogLine, scheduler: Pod, words: str) -> Evidence:
    """Quotes a line of the extender's log; the command finds it again by `words`, for as long as the log is kept."""
    return of_logged(scheduler, EXTENDER_CONTAINER, line.raw, line.at, grep=shlex.quote(words))


def of_wait(wait: ThrottledRequest, scheduler: Pod) -> Evidence:
    """Quotes the log line of a request that the extender in this pod held back by its client's rate limit."""
    return of_logged(scheduler, EXTENDER_CONTAINER, wait.line, grep=shlex.quote(NEEDLE))


def of_word(pod: Pod, container: Container, text: str) -> Evidence:
    """Quotes the last word of a container's command line that holds `text`, such as a flag with its value."""
    words = (("args", container.args or ()), ("command", container.command or ()))
    found = ((field, word) for field, line in words for word in reversed(line) if text in word)
    field, word = next(found, ("command", ""))
    return of_pod(pod, word, f'{{.spec.containers[?(@.name=="{container.name}")].{field}}}')


def of_env(pod: Pod, container: str, variable: EnvVar) -> Evidence:
    """Quotes the value of a variable of a container; for an empty value the variable's name."""
    field, quote = ("value", variable.value) if variable.value.strip() else ("name", variable.name)
    path = f'{{.spec.containers[?(@.name=="{container}")].env[?(@.name=="{variable.name}")].{field}}}'
    return of_pod(pod, quote, path)


def of_logged(
    pod: Pod,
    container: str,
    line: str,
    at: datetime | None = None,
    *options: str,
    grep: str = "",
    source: str = "scheduler log",
) -> Evidence:
    """Quotes a line of a container's log. `options` are those of `kubectl logs`; `grep` is what finds the line."""
    log = kubectl_logs(pod, container, *options)
    about, found = f"{pod_name(pod)} container {container}", f"{log} | grep {grep}" if grep else log
    return Evidence(source, about, format_time(at) if at else None, shown(line), found)


def extender_log(namespace: str, scheduler: str, about: str) -> str:
    """The command that shows what the extender of a scheduler pod logged about a pod in the last hour."""
    log = kubectl("-n", namespace, "logs", scheduler, "-c", EXTENDER_CONTAINER, "--since=1h")
    return f"{log} | grep {shlex.quote(about)}"


def pod_name(pod: Pod | Holder | DaemonPod) -> str:
    return f"Pod {pod.namespace}/{pod.name}"


def _annotation_path(key: str) -> str:
    return f"{{.metadata.annotations.{escape(key)}}}"


def escape(key: str) -> str:
    """A key as a step of a JSONPath: its dots are no steps."""
    return key.replace(".", "\\.")


def _pod_path(pod: Pod | Holder | DaemonPod, path: str) -> str:
    return kubectl_pod(pod, "get", "-o", _by(path))


def _by(path: str) -> str:
    return f"jsonpath={path}"


def of_plugin(pod: Pod | DaemonPod, why: str) -> Evidence:
    """Quotes the status of a device plugin's pod: `why`, else its phase, else its name."""
    path = "{.status..reason}" if why else "{.status.phase}"
    return _of_pod(Evidence, pod, why or pod.status.phase or pod.name, path)


def of_object(kind: str, resource: Resource, quote: str, path: str) -> Evidence:
    """Quotes a value of an object of HAMi's, by its JSONPath `path`; for an empty value its name."""
    if not quote.strip():
        quote, path = resource.name, "{.metadata.name}"
    namespace, word = resource.metadata.namespace, kind.lower()
    name, where = (f"{namespace}/{resource.name}", ("-n", namespace)) if namespace else (resource.name, ())
    command = kubectl(*where, "get", word, resource.name, "-o", _by(path))
    return Evidence(word, f"{kind} {name}", None, shown(quote), command)
