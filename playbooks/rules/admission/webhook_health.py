"""HAMi's admission webhook: whether it is there, whether something answers, and what becomes of new pods if not."""

from datetime import datetime

from msgspec import structs

from bot.hami.installation.install import Install, extender_of
from bot.kube.models import Service, ServiceReference
from bot.report import Confidence, Evidence, Finding, Gap, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.webhook import SERVICE_LABEL, Hook, WebhookSeen
from playbooks.quotes import kubectl
from playbooks.rules.admission.webhook_calls import WebhookFacts, rejected, rejections, uncalled
from playbooks.rules.admission.webhook_configuration import (
    CERTIFICATE_FLAG,
    KIND,
    certificates,
    fails,
    of_policy,
    serves_webhook,
    service_of,
)
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts, of_object

_HTTPS, _PATH = 443, "/webhook"


def webhook(parts: Parts, now: datetime) -> list[Finding]:
    """What `status` says of it."""
    seen = parts.components.webhook
    return faults(WebhookFacts(seen, parts.install, now), confidence=parts.confidence) if parts.install.seen else []


def faults(asked: WebhookFacts, *, confidence: Confidence = "confirmed") -> list[Finding]:
    """Missing, without anybody to answer, or not trusted by the API server; none where that could not be read."""
    seen, install = asked.seen, asked.install
    if isinstance(seen.hooks, Gap):
        return []
    hook = seen.hook
    if hook is None:
        return _missing(install, confidence)
    if (dead := _dead(seen, install, hook)) is not None:
        return [structs.replace(dead, confidence=confidence)]
    lines = rejections(seen, asked.now)
    if (said := uncalled(asked, hook, lines)) is not None:
        return [said]
    if lines:
        return [rejected(hook, lines)]
    return [] if service_of(hook) is None or _trusted(hook) else [_untrusted(hook)]


def _missing(install: Install, confidence: Confidence) -> list[Finding]:
    pod = next((pod for pod in install.pods if extender_of(pod.spec)), None)
    if pod is None or not serves_webhook(install):
        return []
    extender = extender_of(pod.spec)
    words = [*(extender.command or ()), *(extender.args or ())] if extender else []
    quote = next((word for word in words if CERTIFICATE_FLAG in word), "")
    proofs = [quotes.of_pod(pod, quote, "{.spec.containers[*].command}")]
    claim = Text("webhook-missing.claim", scheduler=install.scheduler_name)
    fault = finding("webhook-missing", claim, confidence, (), proofs, severity="critical")
    look = step(Text("webhook-missing.look"), kubectl("get", KIND.lower()))
    return [structs.replace(fault, next_actions=(look,))]


def _dead(seen: WebhookSeen, install: Install, hook: Hook) -> Finding | None:
    service = service_of(hook)
    broken = _broken(seen, install, hook, service) if service else None
    if service is None or broken is None:
        return None
    why, shown = broken
    claim = Text("webhook-unreachable.fail" if fails(hook) else "webhook-unreachable.ignore", why=why)
    proofs = [
        of_object(KIND, hook.config, service.name, "{.webhooks[*].clientConfig.service.name}"),
        *of_policy(hook),
        *shown,
    ]
    fault = finding("webhook-unreachable", claim, "confirmed", (), proofs, severity="critical")
    look = kubectl("-n", service.namespace, "get", "endpointslices", "-l", f"{SERVICE_LABEL}={service.name}")
    return structs.replace(fault, next_actions=(step(Text("webhook-unreachable.look"), look),))


def _broken(
    seen: WebhookSeen, install: Install, hook: Hook, asked: ServiceReference
) -> tuple[Prose, list[Evidence]] | None:
    """Where the way from the API server to the extender ends, and the objects that show it."""
    found, name = seen.service(asked.namespace, asked.name), f"{asked.namespace}/{asked.name}"
    if found is None:
        return None if isinstance(seen.services, Gap) else (Text("webhook-unreachable.no-service", service=name), [])
    spec = found.spec
    if seen.ready_targets(asked.namespace, asked.name) == []:
        key, value = _selects_nothing(found, install)
        text = Text("webhook-unreachable.no-match", service=name, label=f"{key}={value}") if key else ""
        shown = [of_object("Service", found, value or next(iter(spec.selector or {}), ""), "{.spec.selector}")]
        return text or Text("webhook-unreachable.no-endpoint", service=name), shown
    port = asked.port or _HTTPS
    used = next((service_port for service_port in spec.ports or () if service_port.port == port), None)
    if spec.ports and used is None:
        ports = ", ".join(str(service_port.port) for service_port in spec.ports)
        shown = [of_object("Service", found, str(spec.ports[0].port), "{.spec.ports[*].port}")]
        shown += (
            [of_object(KIND, hook.config, str(port), "{.webhooks[*].clientConfig.service.port}")] if asked.port else []
        )
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


def _selects_nothing(service: Service, install: Install) -> tuple[str, str]:
    """The label that the Service selects and no scheduler pod has; empty where each of them is on some pod."""
    labels = [pod.metadata.labels or {} for pod in install.pods]
    wanted = (service.spec.selector or {}).items() if labels else ()
    return next(((key, value) for key, value in wanted if all(label.get(key) != value for label in labels)), ("", ""))


def _trusted(hook: Hook) -> bool:
    return bool(hook.webhook.client_config and hook.webhook.client_config.ca_bundle)


def _untrusted(hook: Hook) -> Finding:
    """Only suspected: the extender's certificate could be one that the API server trusts anyway."""
    claim = Text("webhook-untrusted.fail" if fails(hook) else "webhook-untrusted.ignore")
    proofs = [of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}"), *of_policy(hook)]
    fault = finding("webhook-untrusted", claim, "suspected", (), proofs, severity="warning")
    return structs.replace(fault, next_actions=certificates(hook))
