"""What is said of calls to HAMi's webhook that fail: by the API server, and by the extender about its caller."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.scheduler_logs.log_lines import parse_line
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import Event, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, NextAction, Severity, one_line
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.webhook import (
    API_CONTAINER,
    API_NAMESPACE,
    FAILED_CALL,
    WEBHOOK_NAME,
    FailedCall,
    Hook,
)
from playbooks.quotes import kubectl
from playbooks.rules.admission.webhook_configuration import KIND, certificates, fails, of_policy, where_it_answers
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import of_object
from playbooks.scenes.cluster import WebhookScene

_OWN_HOSTS = ("127.0.0.1", "::1")
"""kube-scheduler asks the extender from the same pod."""
_RECENT = timedelta(minutes=15)
_OF_CREATION = timedelta(seconds=35)
"""The API server waits for a webhook for 30 s at most (timeoutSeconds)."""
_STAMP = re.compile(r"(\d{4}/\d\d/\d\d) (\d\d:\d\d:\d\d) ")
_REJECTED = re.compile(
    r"TLS handshake error from (?P<host>\S+):\d+: remote error: tls: "
    r"(?:bad certificate|unknown certificate(?: authority)?|(?:expired|revoked) certificate)"
)
"""net/http's words where the client does not accept the server's certificate [crypto/tls alert.go]."""
_CALL = re.compile(
    r'^.*failed calling webhook "[^"]*": (?:failed to call webhook: )?(?:Post "?[^\s"]+"?: )?', re.DOTALL
)
_CERTIFICATE_WORDS = re.compile(r"x509|\btls: |certificate")


class Asked(NamedTuple):
    """Where the webhook was read, and of whom it is asked: of a pod that was `created` then, or of the whole cluster.

    `shown` is what proves a fault of that code in the pod's own case.
    """

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
        """A fault of the webhook: what shows it in the pod's own case comes first, and makes it sure."""
        shown = self.shown.get(code, ())
        return finding(
            code, claim, "confirmed" if shown else sure, (), [*shown, *proofs], severity=severity, actions=actions
        )


class Rejection(NamedTuple):
    """A line of the extender's log that tells of it."""

    pod: Pod
    line: str
    at: datetime | None


def rejections(scene: WebhookScene) -> list[Rejection]:
    """Connections of the last minutes that a client other than this pod's own ended for the certificate's sake."""
    found: list[Rejection] = []
    for pod, line in scene.webhook.handshakes.lines if scene.webhook else ():
        match = _REJECTED.search(line)
        if match is None or match["host"].strip("[]") in _OWN_HOSTS:
            continue
        stamp = _STAMP.match(line)
        at = parse_time(f"{stamp[1].replace('/', '-')}T{stamp[2]}Z") if stamp else None
        if at is None or scene.now - at <= _RECENT:
            found.append(Rejection(pod, line, at))
    return found


def rejected(asked: Asked, hook: Hook, lines: Sequence[Rejection]) -> Finding:
    """Only suspected: the log does not say that the client is the API server."""
    claim = Text("webhook-untrusted.rejected-fail" if fails(hook) else "webhook-untrusted.rejected-ignore")
    proofs = [*map(of_rejection, lines[-2:]), of_object(KIND, hook.config, hook.webhook.name, "{.webhooks[*].name}")]
    return asked.fault("webhook-untrusted", claim, "suspected", [*proofs, *of_policy(hook)], certificates(hook))


class _Call(NamedTuple):
    at: datetime
    call: FailedCall


def uncalled(asked: Asked, hook: Hook, lines: Sequence[Rejection]) -> Finding | None:
    """What an API server last said of its calls, since the scheduler is ready and within the last minutes.

    While a scheduler pod starts, nobody answers: that is over. Only suspected where a pod is asked about and no call
    failed when it was created.
    """
    calls = list(_failed(asked.scene))
    if not calls:
        return None
    near = [call for call in calls if asked.created and abs(call.at - asked.created) <= _OF_CREATION]
    at, call = (near or calls)[-1]
    log = kubectl("-n", API_NAMESPACE, "logs", call.pod, "-c", API_CONTAINER, "--since=1h")
    name = f"Pod {API_NAMESPACE}/{call.pod} container {API_CONTAINER}"
    proof = Evidence("API server log", name, format_time(at), quotes.shown(call.line), f"{log} | grep {WEBHOOK_NAME}")
    code, claim, actions = _said(call.line, hook)
    more = map(of_rejection, lines[-1:]) if code == "webhook-untrusted" else ()
    sure: Confidence = "suspected" if asked.created and not near else "confirmed"
    return asked.fault(code, claim, sure, [proof, *more, *of_policy(hook)], actions)


def _failed(scene: WebhookScene) -> Iterator[_Call]:
    """The failed calls that still tell something, the newest last."""
    conditions = (pod.condition("Ready") for pod in scene.install.ready_pods)
    turns = (parse_time(condition.last_transition_time) for condition in conditions if condition)
    ready = max((turn for turn in turns if turn), default=None)
    lines = ((parse_line(call.line, scene.now), call) for call in (scene.webhook.calls if scene.webhook else ()))
    calls = [_Call(line.at, call) for line, call in lines if line and line.at]
    for call in sorted(calls, key=lambda call: call.at):
        if scene.now - call.at <= _RECENT and (ready is None or call.at > ready):
            yield call


def of_rejection(rejection: Rejection) -> Evidence:
    """The line as evidence."""
    log = kubectl("-n", rejection.pod.namespace, "logs", rejection.pod.name, "-c", EXTENDER_CONTAINER, "--since=1h")
    name = f"Pod {rejection.pod.namespace}/{rejection.pod.name} container {EXTENDER_CONTAINER}"
    at = format_time(rejection.at) if rejection.at else None
    return Evidence("scheduler log", name, at, quotes.shown(rejection.line), f"{log} | grep 'TLS handshake error'")


def refused_call(refusals: Sequence[Event], hook: Hook | None) -> Finding | None:
    """What the API server says of a pod that failurePolicy Fail kept from being created; None of any other refusal."""
    calls = [refusal for refusal in refusals if FAILED_CALL in refusal.message]
    if not calls:
        return None
    code, claim, actions = _said(calls[0].message, hook, denied=True)
    proofs = [*map(quotes.of_event, calls)]
    return finding(code, claim, "confirmed", (), proofs, severity="critical", actions=actions)


def _said(words: str, hook: Hook | None, *, denied: bool = False) -> tuple[Code, Text, Sequence[NextAction]]:
    """What the API server's words mean, and where to look: nobody answers, or the certificate is not trusted."""
    why = one_line(_CALL.sub("", words).strip(), 160).rstrip(".")
    refused = denied or hook is None or fails(hook)
    if _CERTIFICATE_WORDS.search(why):
        key = "webhook-untrusted.said-fail" if refused else "webhook-untrusted.said-ignore"
        return "webhook-untrusted", Text(key, why=why), certificates(hook) if hook else where_it_answers(hook)
    key = "webhook-unreachable.said-fail" if refused else "webhook-unreachable.said-ignore"
    return "webhook-unreachable", Text(key, why=why), where_it_answers(hook)
