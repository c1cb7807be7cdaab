"""Makes the JSON schema of the chart's values: `python -m tests.update_docs` writes it."""

import json
from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FILLED: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_SWITCH: Schema = {"type": "boolean"}
_ANY: Schema = {"type": "object"}
_NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}
_NAMES: Schema = {"type": "array", "uniqueItems": True, "items": _NAME}
_QUANTITY: Schema = {"type": ["string", "number"], "pattern": r"^[0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?$"}
_INTERVAL: Schema = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
_DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
_PORTS: Schema = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535}}
_PAGERS = ("pagerdutyRoutingKey", "pagerdutyWebhookSecret", "webhookSecret")


def _keys(*required: str, **properties: Schema) -> Schema:
    """An object with these keys and no other."""
    made: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return made | ({"required": list(required)} if required else {})


_VALUES = _keys(
    image=_keys(
        repository=_FILLED, tag=_TEXT, digest=_DIGEST, pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}
    ),
    imagePullSecrets={"type": "array", "items": _keys("name", name=_NAME)},
    replicas={"type": "integer", "minimum": 1},
    slack=_keys(mode={"enum": ["socket", "http"]}, secretName=_NAME),
    hami=_keys(namespace=_NAME, schedulerDeployment=_NAME),
    rbac=_keys(cluster=_keys(enabled=_SWITCH), hami=_keys(enabled=_SWITCH)),
    settings=_ANY | {"description": "The settings file: docs/settings.md lists the keys."},
    oncall=_keys(secretName=_TEXT, key=_FILLED, pagerdutyKey=_TEXT, paging=_keys(**dict.fromkeys(_PAGERS, _TEXT))),
    changes=_keys(enabled=_SWITCH),
    deadMan=_keys(enabled=_SWITCH),
    podsProxy=_keys(enabled=_SWITCH),
    workloadLogs=_keys(namespaces=_NAMES),
    playbooks=_keys(configMap=_TEXT),
    store=_keys(
        persistence=_keys(size=_QUANTITY, storageClass=_TEXT),
        auditKey=_keys(secretName=_TEXT, key=_FILLED),
        postgres=_keys(secretName=_TEXT, key=_FILLED),
    ),
    metrics=_keys(
        secretName=_TEXT,
        key=_FILLED,
        serviceMonitor=_keys(enabled=_SWITCH, interval=_INTERVAL, labels=_TEXTS),
        prometheusRule=_keys(enabled=_SWITCH, labels=_TEXTS),
        dashboard=_keys(enabled=_SWITCH, labels=_TEXTS),
    ),
    networkPolicy=_keys(enabled=_SWITCH, ports=_PORTS, **{"from": {"type": "array", "items": _ANY}}),
    podDisruptionBudget=_keys(enabled=_SWITCH),
    resources=_ANY,
    nodeSelector=_TEXTS,
    tolerations={"type": "array", "items": _ANY},
    affinity=_ANY,
    podAnnotations=_TEXTS,
)


def values_schema() -> str:
    """`values.schema.json`, by which Helm refuses values that make no sense."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart hami-bot"}
    more = {"global": _ANY | {"description": "Helm passes it to charts that are part of another."}}
    made = head | _VALUES | {"properties": _VALUES["properties"] | more}
    return json.dumps(made, indent=2) + "\n"
