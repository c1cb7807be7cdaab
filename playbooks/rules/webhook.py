"""HAMi's admission webhook: whether it is there, whether something answers, and what becomes of new pods if not."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from bot.hami.install import EXTENDER_CONTAINER, Install, extender_of
from bot.kube.models import Event, LabelSelector, Pod, Service, ServiceReference
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, one_line
from bot.texts import Texts
from playbooks import quotes
from playbooks.gather.webhook import FAILED_CALL, SERVICE_LABEL, Hook, WebhookSeen
from playbooks.quotes import kubectl
from playbooks.rules.findings import finding
from playbooks.rules.parts import Parts, of_object

KIND = "MutatingWebhookConfiguration"
FAIL = "Fail"
_CERTIFICATE = "cert_file"
_HTTPS, _PATH = 443, "/webhook"
_OWN_HOSTS = ("127.0.0.1", "::1")
"""kube-scheduler asks the extender from the same pod."""
_RECENT = timedelta(minutes=15)
_STAMP = re.compile(r"(\d{4}/\d\d/\d\d) (\d\d:\d\d:\d\d) ")
_REJECTED = re.compile(
    r"TLS handshake error from (?P<host>\S+):\d+: remote error: tls: "
    r"(?:bad certificate|unknown certificate(?: authority)?|(?:expired|revoked) certificate)"
)
"""net/http's words where the client does not accept the server's certificate [crypto/tls alert.go]."""
_CALL = re.compile(r'^.*failed calling webhook "[^"]*": (?:failed to call webhook: )?(?:Post "[^"]*": )?', re.DOTALL)
_CERTIFICATE_WORDS = re.compile(r"x509|\btls: |certificate")


class Rejection(NamedTuple):
    """A line of the extender's log that tells of it."""

    pod: Pod
    line: str
    at: datetime | None


def webhook(parts: Parts, now: datetime, say: Texts) -> list[Finding]:
    """What `status` says of it."""
    seen = parts.components.webhook
    return faults(seen, parts.install, now, say, confidence=parts.confidence) if parts.install.seen else []


def faults(
    seen: WebhookSeen, install: Install, now: datetime, say: Texts, *, confidence: Confidence = "confirmed"
) -> list[Finding]:
    """Missing, without anybody to answer, or not trusted by the API server; none where that could not be read."""
    if isinstance(seen.hooks, Gap):
        return []
    hook = seen.hook
    if hook is None:
        return _missing(install, confidence, say)
    if (dead := _dead(seen, install, hook, say)) is not None:
        return [structs.replace(dead, confidence=confidence)]
    if lines := rejections(seen, now):
        return [_rejected(hook, lines, say)]
    return [] if service_of(hook) is None or _trusted(hook) else [_untrusted(hook, say)]


def service_of(hook: Hook) -> ServiceReference | None:
    """The Service that the API server asks; None where the webhook is named by a URL."""
    return hook.webhook.client_config.service if hook.webhook.client_config else None


def policy(hook: Hook) -> str:
    """What the API server does when nobody answers; admissionregistration/v1 defaults to Fail."""
    return hook.webhook.failure_policy or FAIL


def serves_webhook(install: Install) -> bool:
    """Whether the extender is started as a webhook: with the chart's webhook off it gets no certificate."""
    return _CERTIFICATE in install.flags


def selectors(hook: Hook) -> list[str]:
    """What the webhook is kept to, in the words of the API."""
    both = ("namespace", hook.webhook.namespace_selector), ("object", hook.webhook.object_selector)
    return [f"{name}: {text}" for name, one in both if one and (text := _selector(one))]


def _selector(selector: LabelSelector) -> str:
    parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    for one in selector.match_expressions or ():
        values = f" ({', '.join(one.values)})" if one.values else ""
        parts.append(f"{one.key} {one.operator}{values}")
    return ", ".join(parts)


def _missing(install: Install, confidence: Confidence, say: Texts) -> list[Finding]:
    pod = next((one for one in install.pods if extender_of(one.spec)), None)
    if pod is None or not serves_webhook(install):
        return []
    extender = extender_of(pod.spec)
    words = [*(extender.command or ()), *(extender.args or ())] if extender else []
    quote = next((word for word in words if _CERTIFICATE in word), "")
    proofs = [quotes.of_pod(pod, quote, "{.spec.containers[*].command}")]
    claim = say("webhook-missing.claim", scheduler=install.scheduler_name)
    told = finding("webhook-missing", claim, confidence, (), proofs, severity="critical")
    look = NextAction(say("webhook-missing.look"), kubectl("get", KIND.lower()))
    return [structs.replace(told, next_actions=(look,))]


def _dead(seen: WebhookSeen, install: Install, hook: Hook, say: Texts) -> Finding | None:
    service = service_of(hook)
    broken = _broken(seen, install, hook, service, say) if service else None
    if service is None or broken is None:
        return None
    why, shown = broken
    claim = say(f"webhook-unreachable.{_result(hook)}", why=why)
    proofs = [
        of_object(KIND, hook.config, service.name, "{.webhooks[*].clientConfig.service.name}"),
        *_policy(hook),
        *shown,
    ]
    told = finding("webhook-unreachable", claim, "confirmed", (), proofs, severity="critical")
    look = kubectl("-n", service.namespace, "get", "endpointslices", "-l", f"{SERVICE_LABEL}={service.name}")
    return structs.replace(told, next_actions=(NextAction(say("webhook-unreachable.look"), look),))


def _broken(
    seen: WebhookSeen, install: Install, hook: Hook, asked: ServiceReference, say: Texts
) -> tuple[str, list[Evidence]] | None:
    """Where the way from the API server to the extender ends, and the objects that show it."""
    found, name = seen.service(asked.namespace, asked.name), f"{asked.namespace}/{asked.name}"
    if found is None:
        return None if isinstance(seen.services, Gap) else (say("webhook-unreachable.no-service", service=name), [])
    spec = found.spec
    if seen.ready_targets(asked.namespace, asked.name) == []:
        key, value = _selects_nothing(found, install)
        text = say("webhook-unreachable.no-match", service=name, label=f"{key}={value}") if key else ""
        shown = [of_object("Service", found, value or next(iter(spec.selector or {}), ""), "{.spec.selector}")]
        return text or say("webhook-unreachable.no-endpoint", service=name), shown
    port = asked.port or _HTTPS
    used = next((one for one in spec.ports or () if one.port == port), None)
    if spec.ports and used is None:
        ports = ", ".join(str(one.port) for one in spec.ports)
        shown = [of_object("Service", found, str(spec.ports[0].port), "{.spec.ports[*].port}")]
        shown += (
            [of_object(KIND, hook.config, str(port), "{.webhooks[*].clientConfig.service.port}")] if asked.port else []
        )
        return say("webhook-unreachable.no-port", service=name, port=port, ports=ports), shown
    listens = install.flags.get("http_bind", "").rpartition(":")[2]
    target = (used.target_port or port) if used else ""
    if listens and isinstance(target, int) and str(target) != listens:
        shown = [of_object("Service", found, str(target), "{.spec.ports[*].targetPort}")]
        return say("webhook-unreachable.other-port", service=name, target=target, listens=listens), shown
    if asked.path and asked.path.rstrip("/") != _PATH:
        shown = [of_object(KIND, hook.config, asked.path, "{.webhooks[*].clientConfig.service.path}")]
        return say("webhook-unreachable.other-path", path=asked.path, wanted=_PATH), shown
    return None


def _selects_nothing(service: Service, install: Install) -> tuple[str, str]:
    """The label that the Service selects and no scheduler pod has; empty where each of them is on some pod."""
    labels = [pod.metadata.labels or {} for pod in install.pods]
    wanted = (service.spec.selector or {}).items() if labels else ()
    return next(((key, value) for key, value in wanted if all(one.get(key) != value for one in labels)), ("", ""))


def _result(hook: Hook) -> str:
    return "fail" if policy(hook) == FAIL else "ignore"


def rejections(seen: WebhookSeen, now: datetime) -> list[Rejection]:
    """Connections of the last minutes that a client other than this pod's own ended for the certificate's sake."""
    found: list[Rejection] = []
    for pod, line in seen.handshakes.lines:
        told = _REJECTED.search(line)
        if told is None or told["host"].strip("[]") in _OWN_HOSTS:
            continue
        stamp = _STAMP.match(line)
        at = parse_time(f"{stamp[1].replace('/', '-')}T{stamp[2]}Z") if stamp else None
        if at is None or now - at <= _RECENT:
            found.append(Rejection(pod, line, at))
    return found


def _rejected(hook: Hook, lines: Sequence[Rejection], say: Texts) -> Finding:
    """Only suspected: the log does not say that the client is the API server."""
    claim = say(f"webhook-untrusted.rejected-{_result(hook)}")
    proofs = [*map(of_rejection, lines[-2:]), of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}")]
    told = finding("webhook-untrusted", claim, "suspected", (), [*proofs, *_policy(hook)], severity="critical")
    return structs.replace(told, next_actions=_certificates(hook, say))


def of_rejection(one: Rejection) -> Evidence:
    """The line as evidence."""
    log = kubectl("-n", one.pod.namespace, "logs", one.pod.name, "-c", EXTENDER_CONTAINER, "--since=1h")
    name = f"Pod {one.pod.namespace}/{one.pod.name} container {EXTENDER_CONTAINER}"
    at = format_time(one.at) if one.at else None
    return Evidence("scheduler log", name, at, one.line.rstrip("\n"), f"{log} | grep 'TLS handshake error'")


def refused_call(refusals: Sequence[Event], hook: Hook | None, say: Texts) -> Finding | None:
    """What the API server says of a pod that failurePolicy Fail kept from being created; None of any other refusal."""
    told = next((one for one in refusals if FAILED_CALL in one.message), None)
    if told is None:
        return None
    why = _CALL.sub("", told.message).strip()
    code = "webhook-untrusted" if _CERTIFICATE_WORDS.search(why) else "webhook-unreachable"
    claim = say(f"{code}.said", why=one_line(why, 160).rstrip("."))
    proofs = [quotes.of_event(one) for one in refusals if FAILED_CALL in one.message]
    actions = _certificates(hook, say) if hook and code == "webhook-untrusted" else _where(hook, say)
    return finding(code, claim, "confirmed", (), proofs, severity="critical", actions=actions)


def _where(hook: Hook | None, say: Texts) -> tuple[NextAction, ...]:
    service = service_of(hook) if hook else None
    if service is None:
        return (NextAction(say("webhook-missing.look"), kubectl("get", KIND.lower())),)
    look = kubectl("-n", service.namespace, "get", "endpointslices", "-l", f"{SERVICE_LABEL}={service.name}")
    return (NextAction(say("webhook-unreachable.look"), look),)


def _certificates(hook: Hook, say: Texts) -> tuple[NextAction, ...]:
    look = kubectl("get", KIND.lower(), hook.config.name, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}")
    return (NextAction(say("webhook-untrusted.look"), look),)


def _policy(hook: Hook) -> list[Evidence]:
    text = hook.webhook.failure_policy
    return [of_object(KIND, hook.config, text, "{.webhooks[*].failurePolicy}")] if text else []


def _trusted(hook: Hook) -> bool:
    return bool(hook.webhook.client_config and hook.webhook.client_config.ca_bundle)


def _untrusted(hook: Hook, say: Texts) -> Finding:
    """Only suspected: the extender's certificate could be one that the API server trusts anyway."""
    claim = say(f"webhook-untrusted.{_result(hook)}")
    proofs = [of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}"), *_policy(hook)]
    told = finding("webhook-untrusted", claim, "suspected", (), proofs, severity="warning")
    return structs.replace(told, next_actions=_certificates(hook, say))
