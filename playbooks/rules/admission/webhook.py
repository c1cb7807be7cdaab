"""Rules about HAMi's webhook: which pods the API server sends it, and what becomes of them when it does not answer.
Advice goes by the words of a refusal: HAMi v2.7 to v2.10, pkg/scheduler/webhook.go and MutateAdmission in pkg/device/*.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.installation.install import Install, extender_of
from bot.hami.scheduler_logs.log_lines import parse_line
from bot.kube.hami_pods import COMPONENT_LABEL, EXTENDER_CONTAINER, SCHEDULER_COMPONENT
from bot.kube.models import Event, Pod
from bot.kube.models.workloads import ServiceReference
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, act, one_line, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.webhook import (
    API_CONTAINER,
    API_NAMESPACE,
    FAILED_CALL,
    SERVICE_LABEL,
    WEBHOOK_NAME,
    FailedCall,
    Hook,
    WebhookSeen,
)
from playbooks.quotes import kubectl, of_logged, of_object
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene

WebhookScene = InstallScene | PodScene | PlacedScene | AbsentScene
"""A scene in which HAMi's webhook may have been read."""
KIND = "MutatingWebhookConfiguration"
FAIL = "Fail"
CERTIFICATE_FLAG = "cert_file"


def service_of(hook: Hook) -> ServiceReference | None:
    """The Service by which the API server calls the webhook; None where the webhook is named by a URL."""
    return hook.webhook.client_config.service if hook.webhook.client_config else None


def policy(hook: Hook) -> str:
    """The webhook's failurePolicy, for calls without an answer; admissionregistration/v1 defaults to Fail."""
    return hook.webhook.failure_policy or FAIL


def serves_webhook(install: Install) -> bool:
    """Whether the extender also serves the webhook: it has no certificate if the chart's webhook is off."""
    return CERTIFICATE_FLAG in install.flags


def selectors(hook: Hook) -> list[str]:
    """The selectors that limit the webhook to some pods, in the words of the API."""
    both, found = {"namespace": hook.webhook.namespace_selector, "object": hook.webhook.object_selector}, list[str]()
    for name, selector in ((name, one) for name, one in both.items() if one):
        parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
        for expression in selector.match_expressions or ():
            values = f" ({', '.join(expression.values)})" if expression.values else ""
            parts.append(f"{expression.key} {expression.operator}{values}")
        found += [f"{name}: {', '.join(parts)}"] if parts else []
    return found


def fails(hook: Hook) -> bool:
    return policy(hook) == FAIL


def of_policy(hook: Hook) -> list[Evidence]:
    text = hook.webhook.failure_policy
    return [of_object(KIND, hook.config, text, "{.webhooks[*].failurePolicy}")] if text else []


def where_it_answers(hook: Hook | None) -> tuple[NextAction, ...]:
    service = service_of(hook) if hook else None
    if service is None:
        return (step(Text("webhook-missing.look"), kubectl("get", KIND.lower())),)
    look = kubectl("-n", service.namespace, "get", "endpointslices", "-l", f"{SERVICE_LABEL}={service.name}")
    return (step(Text("webhook-unreachable.look"), look),)


def certificates(hook: Hook) -> tuple[NextAction, ...]:
    look = kubectl("get", KIND.lower(), hook.config.name, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}")
    return (act(Text("webhook-untrusted.write", config=hook.config.name), look),)


def _renewals(hook: Hook) -> tuple[NextAction, ...]:
    """The steps where a certificate is there: the extender may serve the one that it read at its start (HAMi#1572)."""
    service = service_of(hook)
    if service is None:
        return certificates(hook)
    labelled = f"{COMPONENT_LABEL}={SCHEDULER_COMPONENT}"
    restart = kubectl("-n", service.namespace, "rollout", "restart", "deployment", "-l", labelled)
    return tuple(prose.alternatives([certificates(hook), [act(Text("webhook-untrusted.restart"), restart)]]))


_OWN_HOSTS = ("127.0.0.1", "::1")
"""The addresses from which kube-scheduler calls the extender: both run in one pod."""
_RECENT = timedelta(minutes=15)
_OF_CREATION = timedelta(seconds=35)
"""How long before or after a pod's creation its webhook call may be: a call takes at most 30 s (timeoutSeconds)."""
_STAMP = re.compile(r"(\d{4}/\d\d/\d\d) (\d\d:\d\d:\d\d) ")
_REJECTED = re.compile(
    r"TLS handshake error from (?P<host>\S+):\d+: remote error: tls: "
    r"(?:bad certificate|unknown certificate(?: authority)?|(?:expired|revoked) certificate)"
)
"""net/http's words when the client rejects the server's certificate [crypto/tls alert.go]."""
_CALL = re.compile(
    r'^.*failed calling webhook "[^"]*": (?:failed to call webhook: )?(?:Post "?[^\s"]+"?: )?', re.DOTALL
)
_OTHER_CA = "signed by unknown authority"
_ON_THE_WAY = re.compile(r"no route to host|deadline exceeded|i/o timeout|Client\.Timeout|^Forbidden$")
"""Matches what is said where a network or a proxy keeps calls from the webhook (HAMi#160, HAMi#379, HAMi#653)."""
_CERTIFICATE_WORDS = re.compile(r"x509|\btls: |certificate")


class WebhookQuestion(NamedTuple):
    """Where the webhook was read: for a pod that was `created` then, or for all. `shown`: the pod's proofs, by code."""

    scene: WebhookScene
    created: datetime | None = None
    shown: Mapping[Code, Sequence[Evidence]] = {}  # never changed

    def fault(
        self,
        code: Code,
        claim: Text,
        sure: Confidence,
        proofs: Sequence[Evidence],
        actions: Sequence[NextAction],
        *,
        severity: Severity = "critical",
    ) -> Finding:
        """A finding about the webhook: evidence of the pod's own case comes first, and makes the finding confirmed."""
        shown = self.shown.get(code, ())
        sure, proofs = "confirmed" if shown else sure, [*shown, *proofs]
        return finding(code, claim, sure, proofs=proofs, severity=severity, actions=actions)


class RejectionLine(NamedTuple):
    """A line of the extender's log about a client that rejected the certificate."""

    pod: Pod
    line: str
    at: datetime | None


def rejections(scene: WebhookScene) -> list[RejectionLine]:
    """The extender's log lines of the last minutes about clients outside its pod that rejected the certificate."""
    found: list[RejectionLine] = []
    for pod, line in scene.webhook.handshakes.lines if scene.webhook else ():
        match = _REJECTED.search(line)
        if match is None or match["host"].strip("[]") in _OWN_HOSTS:
            continue
        stamp = _STAMP.match(line)
        at = parse_time(f"{stamp[1].replace('/', '-')}T{stamp[2]}Z") if stamp else None
        if at is None or scene.now - at <= _RECENT:
            found.append(RejectionLine(pod, line, at))
    return found


def rejected(asked: WebhookQuestion, hook: Hook, lines: Sequence[RejectionLine]) -> Finding:
    """The finding that a client rejects the certificate; suspected, because the log does not say which client."""
    key = "webhook-untrusted.rejected-fail" if fails(hook) else "webhook-untrusted.rejected-ignore"
    claim = Text(key, config=hook.config.name)
    proofs = [*map(of_rejection, lines[-2:]), of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}")]
    return asked.fault("webhook-untrusted", claim, "suspected", [*proofs, *of_policy(hook)], _renewals(hook))


def uncalled(asked: WebhookQuestion, hook: Hook, lines: Sequence[RejectionLine]) -> Finding | None:
    """The finding of the API server's last failed call within minutes, since the scheduler is ready; else None. Only
    suspected where a pod is asked about and no call failed when it was created.
    """
    calls = list(_failed(asked.scene))
    if not calls:
        return None
    near = [(at, call) for at, call in calls if asked.created and abs(at - asked.created) <= _OF_CREATION]
    at, call = (near or calls)[-1]
    log = kubectl("-n", API_NAMESPACE, "logs", call.pod, "-c", API_CONTAINER, "--since=1h")
    name = f"Pod {API_NAMESPACE}/{call.pod} container {API_CONTAINER}"
    proof = Evidence("API server log", name, format_time(at), quotes.shown(call.line), f"{log} | grep {WEBHOOK_NAME}")
    code, claim, actions = _said(call.line, hook)
    more = map(of_rejection, lines[-1:]) if code == "webhook-untrusted" else ()
    sure: Confidence = "suspected" if asked.created and not near else "confirmed"
    return asked.fault(code, claim, sure, [proof, *more, *of_policy(hook)], actions)


def _failed(scene: WebhookScene) -> Iterator[tuple[datetime, FailedCall]]:
    """The failed calls that still matter, the newest last."""
    conditions = (pod.condition("Ready") for pod in scene.install.ready_pods)
    turns = (parse_time(condition.last_transition_time) for condition in conditions if condition)
    ready = max((turn for turn in turns if turn), default=None)
    lines = ((parse_line(call.line, scene.now), call) for call in (scene.webhook.calls if scene.webhook else ()))
    calls = [(line.at, call) for line, call in lines if line and line.at]
    for at, call in sorted(calls, key=lambda timed: timed[0]):
        if scene.now - at <= _RECENT and (ready is None or at > ready):
            yield at, call


def of_rejection(rejection: RejectionLine) -> Evidence:
    grep = "'TLS handshake error'"
    return of_logged(rejection.pod, EXTENDER_CONTAINER, rejection.line, rejection.at, "--since=1h", grep=grep)


def refused_call(refusals: Sequence[Event], hook: Hook | None) -> Finding | None:
    """The finding that failurePolicy Fail kept the pod from being created; None for any other refusal."""
    calls = [refusal for refusal in refusals if FAILED_CALL in refusal.message]
    if not calls:
        return None
    code, claim, actions = _said(calls[0].message, hook, denied=True)
    return finding(code, claim, proofs=[*map(quotes.of_event, calls)], severity="critical", actions=actions)


def _said(words: str, hook: Hook | None, *, denied: bool = False) -> tuple[Code, Text, Sequence[NextAction]]:
    """What the API server's words mean, and where to look: nobody answers, or the certificate is not trusted."""
    why = one_line(_CALL.sub("", words).strip(), 160).rstrip(".")
    refused = denied or hook is None or fails(hook)
    if _CERTIFICATE_WORDS.search(why):
        key = "webhook-untrusted.said-fail" if refused else "webhook-untrusted.said-ignore"
        ca = Text("webhook-untrusted.ca", config=hook.config.name) if hook and _OTHER_CA in why else ""
        claim = sentences(Text(key, why=why), ca)
        return "webhook-untrusted", claim, _renewals(hook) if hook else where_it_answers(hook)
    key = "webhook-unreachable.said-fail" if refused else "webhook-unreachable.said-ignore"
    service = service_of(hook) if hook else None
    blocked = kubectl("-n", service.namespace, "get", "networkpolicies") if service else ""
    way = [step(Text("webhook-unreachable.way"), blocked)] if _ON_THE_WAY.search(why) else []
    return "webhook-unreachable", Text(key, why=why), [*where_it_answers(hook), *way]


_HTTPS, _PATH = 443, "/webhook"


_CODES: tuple[Code, ...] = ("webhook-missing", "webhook-unreachable", "webhook-untrusted")


@rule(*_CODES)
def webhook(scene: InstallScene) -> list[Finding]:
    """The findings that new pods do not come to HAMi: its webhook is missing, does not answer, or is not trusted."""
    return faults(WebhookQuestion(scene), sure=scene.seen.confidence)


def faults(asked: WebhookQuestion, *, sure: Confidence = "confirmed") -> list[Finding]:
    """The findings that the webhook is missing, silent or not trusted; `sure`: the confidence in what exists."""
    seen = asked.scene.webhook
    if seen is None or isinstance(seen.hooks, Gap):
        return []
    hook = seen.hook
    if hook is None:
        return _missing(asked, sure)
    service = service_of(hook)
    if service and (broken := _broken(seen, asked.scene.install, hook, service)):
        why, shown, *fix = broken
        claim = Text("webhook-unreachable.fail" if fails(hook) else "webhook-unreachable.ignore", why=why)
        named = of_object(KIND, hook.config, service.name, "{.webhooks[*].clientConfig.service.name}")
        proofs = [*shown, *of_policy(hook), named]
        return [asked.fault("webhook-unreachable", claim, sure, proofs, [*fix, *where_it_answers(hook)])]
    lines = rejections(asked.scene)
    if said := uncalled(asked, hook, lines):
        return [said]
    if lines:
        return [rejected(asked, hook, lines)]
    if service is None or (hook.webhook.client_config and hook.webhook.client_config.ca_bundle):
        return []
    # Only suspected, because the API server may trust the extender's certificate anyway.
    claim = Text("webhook-untrusted.fail" if fails(hook) else "webhook-untrusted.ignore")
    proofs = [of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}"), *of_policy(hook)]
    actions = certificates(hook)
    return [asked.fault("webhook-untrusted", claim, "suspected", proofs, actions, severity="warning")]


def _missing(asked: WebhookQuestion, sure: Confidence) -> list[Finding]:
    install = asked.scene.install
    pod = next(iter(install.pods), None)
    if pod is None or not serves_webhook(install):
        return []
    extender = extender_of(pod.spec)
    proofs = [quotes.of_word(pod, extender, CERTIFICATE_FLAG) if extender else quotes.of_pod_name(pod)]
    claim = Text("webhook-missing.claim", scheduler=install.scheduler_name)
    look = step(Text("webhook-missing.look"), kubectl("get", KIND.lower()))
    return [asked.fault("webhook-missing", claim, sure, proofs, [look])]


def _broken(
    seen: WebhookSeen, install: Install, hook: Hook, asked: ServiceReference
) -> tuple[Prose, list[Evidence]] | tuple[Prose, list[Evidence], NextAction] | None:
    """Where the way from the API server to the extender ends, the objects that show it, and a fix if one is known."""
    found, name = seen.service(asked.namespace, asked.name), f"{asked.namespace}/{asked.name}"
    if found is None:
        return None if isinstance(seen.services, Gap) else (Text("webhook-unreachable.no-service", service=name), [])
    spec = found.spec
    if seen.ready_targets(asked.namespace, asked.name) == []:
        # A label that the Service selects and no scheduler pod has; empty without one.
        labels = [pod.metadata.labels or {} for pod in install.pods]
        wanted = (spec.selector or {}).items() if labels else ()
        key, value = next((item for item in wanted if all(own.get(item[0]) != item[1] for own in labels)), ("", ""))
        if not key:
            shown = [of_object("Service", found, next(iter(spec.selector or {}), ""), "{.spec.selector}")]
            return Text("webhook-unreachable.no-endpoint", service=name), shown
        shown = [of_object("Service", found, value, f"{{.spec.selector.{quotes.escape(key)}}}")]
        if key in labels[0]:
            shown.append(quotes.of_pod(install.pods[0], labels[0][key], f"{{.metadata.labels.{quotes.escape(key)}}}"))
        own = labels[0].get(key)
        patch = json.dumps({"spec": {"selector": {key: own}}}, separators=(",", ":"))
        values = {"service": name, "key": key, "own": own or Text("render.unset"), "now": value}
        select = kubectl("-n", asked.namespace, "patch", "service", asked.name, "-p", patch)
        text = Text("webhook-unreachable.no-match", service=name, label=f"{key}={value}")
        fix = Text("webhook-unreachable.select" if fails(hook) else "webhook-unreachable.select-then", **values)
        return text, shown, act(fix, select)
    port = asked.port or _HTTPS
    used = next((service_port for service_port in spec.ports or () if service_port.port == port), None)
    if spec.ports and used is None:
        ports = ", ".join(str(service_port.port) for service_port in spec.ports)
        shown = [of_object("Service", found, str(spec.ports[0].port), "{.spec.ports[*].port}")]
        path = "{.webhooks[*].clientConfig.service.port}"
        shown += [of_object(KIND, hook.config, str(port), path)] if asked.port else []
        return Text("webhook-unreachable.no-port", service=name, port=port, ports=ports), shown
    listens = install.flags.get("http_bind", "").rpartition(":")[2]
    target = (used.target_port or port) if used else ""
    if listens and isinstance(target, int) and str(target) != listens:
        shown = [of_object("Service", found, str(target), "{.spec.ports[*].targetPort}")]
        return Text("webhook-unreachable.other-port", service=name, target=target, listens=listens), shown
    if asked.path and asked.path.rstrip("/") != _PATH:
        shown = [of_object(KIND, hook.config, asked.path, "{.webhooks[*].clientConfig.service.path}")]
        return Text("webhook-unreachable.other-path", path=asked.path, wanted=_PATH), shown
    return None


BY_QUOTA = Text("admission-denied.quota")
_REMEDIES = {
    "pod has node assigned": Text("admission-denied.node"),
    "exceeding resource quota": BY_QUOTA,
    "is written by the scheduler": Text("admission-denied.annotated"),
    "is privileged": Text("admission-denied.privileged"),
    "supported for multiple devices": Text("admission-denied.part-of-several"),
    "must be 1 or 2*n": Text("admission-denied.modules"),
    "soft split": Text("admission-denied.soft-split"),
    "-memory ": Text("admission-denied.too-much"),
    "request value is invalid": Text("admission-denied.sizes"),
    "must be set one of": Text("admission-denied.one-of"),
    "must request single device": Text("admission-denied.single"),
    "must be greater than 0": Text("admission-denied.positive"),
    "must be in range (0,100]": Text("admission-denied.percentage"),
    "percentage between 1 and 100": Text("admission-denied.percentage"),
    "between 0 and 100": Text("admission-denied.percentage"),
    "or a multiple of": Text("admission-denied.multiple"),
    "must be equal to": Text("admission-denied.own-amount"),
    "must be an integer": Text("admission-denied.whole"),
    "Limit must be set": Text("admission-denied.limit"),
}


def remedy(words: str) -> Text | None:
    """The advice for a webhook's refusal in these words; None for unknown words."""
    return next((text for part, text in _REMEDIES.items() if part in words), None)
