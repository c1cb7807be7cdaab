"""HAMi's admission webhook: whether it is there, whether something answers, and what becomes of new pods if not."""

from msgspec import structs

from bot.hami.install import extender_of
from bot.kube.models import LabelSelector, Service, ServiceReference
from bot.report import Evidence, Finding, Gap, NextAction, Severity
from bot.texts import Texts
from playbooks import quotes
from playbooks.gather.components import SERVICE_LABEL, Hook
from playbooks.quotes import kubectl
from playbooks.rules.findings import finding
from playbooks.rules.parts import Parts, of_object

KIND = "MutatingWebhookConfiguration"
FAIL = "Fail"
_CERTIFICATE = "cert_file"
OPT_OUT = "hami.io/webhook"


def webhook(parts: Parts, say: Texts) -> list[Finding]:
    """Missing, without anybody to answer, or not trusted by the API server."""
    components = parts.components
    if isinstance(components.hooks, Gap) or not parts.install.seen:
        return []
    hook = components.hook
    if hook is None:
        return _missing(parts, say)
    service = service_of(hook)
    if service is None:
        return []
    dead = _dead(parts, hook, service, say)
    if dead is not None:
        return [dead]
    return [] if _trusted(hook) else [_untrusted(parts, hook, say)]


def service_of(hook: Hook) -> ServiceReference | None:
    """The Service that the API server asks; None where the webhook is named by a URL."""
    return hook.webhook.client_config.service if hook.webhook.client_config else None


def policy(hook: Hook) -> str:
    """What the API server does when nobody answers; admissionregistration/v1 defaults to Fail."""
    return hook.webhook.failure_policy or FAIL


def serves_webhook(parts: Parts) -> bool:
    """Whether the extender is started as a webhook: with the chart's webhook off it gets no certificate."""
    return _CERTIFICATE in parts.install.flags


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


def _missing(parts: Parts, say: Texts) -> list[Finding]:
    install = parts.install
    pod = next((one for one in install.pods if extender_of(one.spec)), None)
    if pod is None or not serves_webhook(parts):
        return []
    extender = extender_of(pod.spec)
    words = [*(extender.command or ()), *(extender.args or ())] if extender else []
    quote = next((word for word in words if _CERTIFICATE in word), "")
    proofs = [quotes.of_pod(pod, quote, "{.spec.containers[*].command}")]
    claim = say("webhook-missing.claim", scheduler=install.scheduler_name)
    told = finding("webhook-missing", claim, parts.confidence, (), proofs, severity="critical")
    look = NextAction(say("webhook-missing.look"), kubectl("get", KIND.lower()))
    return [structs.replace(told, next_actions=(look,))]


def _dead(parts: Parts, hook: Hook, service: ServiceReference, say: Texts) -> Finding | None:
    components = parts.components
    known = not isinstance(components.services, Gap)
    found = components.service(service.namespace, service.name)
    name = f"{service.namespace}/{service.name}"
    why: str
    if known and found is None:
        why = say("webhook-unreachable.no-service", service=name)
    elif components.ready_targets(service.namespace, service.name) == []:
        why = say("webhook-unreachable.no-endpoint", service=name)
    else:
        return None
    result = "fail" if policy(hook) == FAIL else "ignore"
    claim = say(f"webhook-unreachable.{result}", why=why)
    proofs = [
        of_object(KIND, hook.config, service.name, "{.webhooks[*].clientConfig.service.name}"),
        *_policy(hook),
        *_selects(found),
    ]
    severity: Severity = "critical"
    told = finding("webhook-unreachable", claim, parts.confidence, (), proofs, severity=severity)
    look = kubectl("-n", service.namespace, "get", "endpointslices", "-l", f"{SERVICE_LABEL}={service.name}")
    return structs.replace(told, next_actions=(NextAction(say("webhook-unreachable.look"), look),))


def _policy(hook: Hook) -> list[Evidence]:
    text = hook.webhook.failure_policy
    return [of_object(KIND, hook.config, text, "{.webhooks[*].failurePolicy}")] if text else []


def _selects(service: Service | None) -> list[Evidence]:
    keys = list((service.spec.selector or {}) if service else {})
    return [of_object("Service", service, keys[-1], "{.spec.selector}")] if service and keys else []


def _trusted(hook: Hook) -> bool:
    return bool(hook.webhook.client_config and hook.webhook.client_config.ca_bundle)


def _untrusted(parts: Parts, hook: Hook, say: Texts) -> Finding:
    """Only suspected: the extender's certificate could be one that the API server trusts anyway."""
    del parts
    result = "fail" if policy(hook) == FAIL else "ignore"
    claim = say(f"webhook-untrusted.{result}")
    proofs = [of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}"), *_policy(hook)]
    told = finding("webhook-untrusted", claim, "suspected", (), proofs, severity="warning")
    look = kubectl("get", KIND.lower(), hook.config.name, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}")
    return structs.replace(told, next_actions=(NextAction(say("webhook-untrusted.look"), look),))
