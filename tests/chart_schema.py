"""Makes the JSON schema of the chart's values: `python -m tests.update_docs` writes it."""

import json
from typing import Any, cast

from bot.settings.schema import Settings

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


_BETWEEN: dict[str, Schema] = {
    "AccessSettings": {
        "if": {"required": ["two_person"], "properties": {"two_person": {"const": True}}},
        "then": {"required": ["approvers"], "properties": {"approvers": {"minItems": 1, "minLength": 1}}},
    },
    "OncallSettings": {"dependencies": {"user": ["password"], "password": ["user"], "pagerduty": ["rota"]}},
    "PrometheusSettings": {"dependencies": {"user": ["password"], "password": ["user"]}},
}
"""What validators refuse that look at two settings."""
_VALUES = _keys(
    image=_keys(
        repository=_FILLED, tag=_TEXT, digest=_DIGEST, pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}
    ),
    imagePullSecrets={"type": "array", "items": _keys("name", name=_NAME)},
    replicas={"type": "integer", "minimum": 1},
    slack=_keys(mode={"enum": ["socket", "http"]}, secretName=_NAME),
    hami=_keys(namespace=_NAME, schedulerDeployment=_NAME),
    rbac=_keys(cluster=_keys(enabled=_SWITCH), hami=_keys(enabled=_SWITCH)),
    settings={"$ref": "#/definitions/Settings"},
    oncall=_keys(secretName=_TEXT, key=_FILLED, pagerdutyKey=_TEXT, paging=_keys(**dict.fromkeys(_PAGERS, _TEXT))),
    changes=_keys(enabled=_SWITCH),
    deadMan=_keys(enabled=_SWITCH),
    podsProxy=_keys(enabled=_SWITCH),
    workloadLogs=_keys(namespaces=_NAMES),
    playbooks=_keys(configMap=_TEXT),
    store=_keys(
        persistence=_keys(enabled=_SWITCH, size=_QUANTITY, storageClass=_TEXT),
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


def _settings() -> Schema:
    """Every section of the settings as `serve` takes it, by its name; also what holds between two settings."""
    made = Settings.model_json_schema(ref_template="#/definitions/{model}")
    sections = made.pop("$defs") | {"Settings": made}
    for name, one in _BETWEEN.items():
        sections[name] |= one
    for one in sections.values():
        given = [name for name in one.get("required", ()) if "writeOnly" not in one["properties"][name]]
        one["required"] = given  # secrets come from a Secret
    return _bare(sections, names=True)


_SAID = {"title", "default", "format", "writeOnly", "description"}


def _bare(schema: Any, *, names: bool = False) -> Any:
    """Without titles, defaults, formats and descriptions, which refuse nothing. `names`: its keys are settings."""
    match schema:
        case list():
            return [_bare(one) for one in cast("list[Any]", schema)]
        case dict():
            held = cast("Schema", schema).items()
            return {key: _bare(one, names=key == "properties") for key, one in held if names or key not in _SAID}
        case _:
            return schema


def values_schema() -> str:
    """`values.schema.json`, by which Helm refuses values that make no sense."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart hami-bot"}
    more = {"global": _ANY | {"description": "Helm passes it to charts that are part of another."}}
    made = head | _VALUES | {"properties": _VALUES["properties"] | more, "definitions": _settings()}
    return json.dumps(made, indent=2) + "\n"
