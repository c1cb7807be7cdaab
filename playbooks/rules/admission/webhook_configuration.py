"""HAMi's webhook as the API server has it: whom it asks, about what, and what becomes of pods when nobody answers."""

from bot.hami.installation.install import Install
from bot.kube.models import LabelSelector, ServiceReference
from bot.report import Evidence, NextAction, step
from bot.texts import Text
from playbooks.gather.webhook import SERVICE_LABEL, Hook
from playbooks.quotes import kubectl
from playbooks.rules.common.hami_objects import of_object

KIND = "MutatingWebhookConfiguration"
FAIL = "Fail"
CERTIFICATE_FLAG = "cert_file"


def service_of(hook: Hook) -> ServiceReference | None:
    """The Service that the API server asks; None where the webhook is named by a URL."""
    return hook.webhook.client_config.service if hook.webhook.client_config else None


def policy(hook: Hook) -> str:
    """What the API server does when nobody answers; admissionregistration/v1 defaults to Fail."""
    return hook.webhook.failure_policy or FAIL


def serves_webhook(install: Install) -> bool:
    """Whether the extender is started as a webhook: with the chart's webhook off it gets no certificate."""
    return CERTIFICATE_FLAG in install.flags


def selectors(hook: Hook) -> list[str]:
    """What the webhook is kept to, in the words of the API."""
    both = ("namespace", hook.webhook.namespace_selector), ("object", hook.webhook.object_selector)
    return [f"{name}: {text}" for name, selector in both if selector and (text := _selector(selector))]


def _selector(selector: LabelSelector) -> str:
    parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    for expression in selector.match_expressions or ():
        values = f" ({', '.join(expression.values)})" if expression.values else ""
        parts.append(f"{expression.key} {expression.operator}{values}")
    return ", ".join(parts)


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
    return (step(Text("webhook-untrusted.look"), look),)
