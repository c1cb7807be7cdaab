"""HAMi's admission webhook: whether it is there, whether something answers, and what becomes of new pods if not."""

from bot.finding_codes import Code
from bot.hami.installation.install import Install, extender_of
from bot.kube.models import Service, ServiceReference
from bot.report import Confidence, Evidence, Finding, Gap, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.webhook import Hook, WebhookSeen
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.admission.webhook_calls import Asked, rejected, rejections, uncalled
from playbooks.rules.admission.webhook_configuration import (
    CERTIFICATE_FLAG,
    KIND,
    certificates,
    fails,
    of_policy,
    serves_webhook,
    service_of,
    where_it_answers,
)
from playbooks.rules.common.hami_objects import of_object
from playbooks.scenes.installation import InstallScene

_HTTPS, _PATH = 443, "/webhook"


_CODES: tuple[Code, ...] = ("webhook-missing", "webhook-unreachable", "webhook-untrusted")


@rule(*_CODES)
def webhook(scene: InstallScene) -> list[Finding]:
    """New pods do not come to HAMi: its webhook is missing, answered by nobody, or not trusted."""
    return faults(Asked(scene), sure=scene.seen.confidence)


def faults(asked: Asked, *, sure: Confidence = "confirmed") -> list[Finding]:
    """Missing, without anybody to answer, or not trusted by the API server; none where that could not be read.

    `sure`: of what is there and what is not.
    """
    seen = asked.scene.webhook
    if seen is None or isinstance(seen.hooks, Gap):
        return []
    hook = seen.hook
    if hook is None:
        return _missing(asked, sure)
    if dead := _dead(asked, seen, hook, sure):
        return [dead]
    lines = rejections(asked.scene)
    if said := uncalled(asked, hook, lines):
        return [said]
    if lines:
        return [rejected(asked, hook, lines)]
    return [] if service_of(hook) is None or _trusted(hook) else [_untrusted(asked, hook)]


def _missing(asked: Asked, sure: Confidence) -> list[Finding]:
    install = asked.scene.install
    pod = next((pod for pod in install.pods if extender_of(pod.spec)), None)
    if pod is None or not serves_webhook(install):
        return []
    extender = extender_of(pod.spec)
    words = [*(extender.command or ()), *(extender.args or ())] if extender else []
    quote = next((word for word in words if CERTIFICATE_FLAG in word), "")
    proofs = [quotes.of_pod(pod, quote, "{.spec.containers[*].command}")]
    claim = Text("webhook-missing.claim", scheduler=install.scheduler_name)
    look = step(Text("webhook-missing.look"), kubectl("get", KIND.lower()))
    return [asked.fault("webhook-missing", claim, sure, proofs, [look])]


def _dead(asked: Asked, seen: WebhookSeen, hook: Hook, sure: Confidence) -> Finding | None:
    service = service_of(hook)
    broken = _broken(seen, asked.scene.install, hook, service) if service else None
    if service is None or broken is None:
        return None
    why, shown = broken
    claim = Text("webhook-unreachable.fail" if fails(hook) else "webhook-unreachable.ignore", why=why)
    proofs = [
        of_object(KIND, hook.config, service.name, "{.webhooks[*].clientConfig.service.name}"),
        *of_policy(hook),
        *shown,
    ]
    return asked.fault("webhook-unreachable", claim, sure, proofs, where_it_answers(hook))


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


def _untrusted(asked: Asked, hook: Hook) -> Finding:
    """Only suspected: the extender's certificate could be one that the API server trusts anyway."""
    claim = Text("webhook-untrusted.fail" if fails(hook) else "webhook-untrusted.ignore")
    proofs = [of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}"), *of_policy(hook)]
    return asked.fault("webhook-untrusted", claim, "suspected", proofs, certificates(hook), severity="warning")
