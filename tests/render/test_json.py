import json

import msgspec
import pytest
from jsonschema import ValidationError

from bot.report import SCHEMA, Gap, Report, Scope, Subject, as_json
from bot.slack.render.report import slack_json
from bot.texts import Texts
from tests.render import evidence, finding, report, typical
from tests.report_schema import validated, validator

SMALL = """\
{
  "schema": "hami-bot.report/v1",
  "playbook": "why",
  "cluster": "lab",
  "taken_at": "2026-11-21T05:00:00Z",
  "subject": {
    "kind": "Pod",
    "namespace": "ml",
    "name": "trainer-0"
  },
  "verdict": "没有空闲的卡",
  "severity": "warning",
  "findings": [
    {
      "code": "card-insufficient-memory",
      "claim": "没有空闲的卡",
      "severity": "warning",
      "confidence": "confirmed",
      "scope": {
        "nodes": []
      },
      "evidence": [
        {
          "source": "event",
          "object": "Pod ml/trainer-0",
          "at": null,
          "quote": "\\u001b[31m \\"red\\"",
          "command": "kubectl -n ml get events --field-selector involvedObject.name=trainer-0"
        }
      ],
      "next_actions": [],
      "key": "",
      "values": {}
    }
  ],
  "tables": [],
  "gaps": [
    {
      "source": "quotas",
      "why": "HTTP 403",
      "hint": "",
      "key": "",
      "values": {},
      "hint_key": "",
      "hint_values": {}
    }
  ],
  "verdict_key": "",
  "verdict_values": {}
}
"""


def test_the_contract_is_written_in_its_order_and_readable():
    cause = finding(claim="没有空闲的卡", scope=Scope(), evidence=(evidence(at=None, quote='\x1b[31m "red"'),))
    assert as_json(report(cause, gaps=(Gap("quotas", "HTTP 403"),))) == SMALL


def test_equal_reports_are_equal_bytes():
    assert as_json(typical()) == as_json(typical())


def test_a_report_without_findings_keeps_every_key():
    nothing = Report(
        SCHEMA, "pending", "lab", "2026-11-21T05:00:00Z", Subject("Cluster", "", "lab"), "None.", "info", ()
    )
    written = json.loads(as_json(nothing))
    optional = {"cache_age_s", "change", "pod_status"}
    assert list(written) == [name for name in Report.__struct_fields__ if name not in optional]
    assert written["findings"] == written["tables"] == written["gaps"] == []


def test_a_report_from_a_cache_tells_its_age():
    assert json.loads(as_json(msgspec.structs.replace(typical(), cache_age_s=3)))["cache_age_s"] == 3


def test_a_report_follows_the_published_schema_and_anything_else_does_not() -> None:
    written = json.loads(as_json(validated(typical())))
    validator().validate(written)
    with pytest.raises(ValidationError, match="'loud' is not one of"):
        validator().validate(written | {"severity": "loud"})


def test_a_message_for_slack_is_indented_by_two_unescaped_and_ends_in_a_newline() -> None:
    written = slack_json(report(finding(claim="没有空闲的卡")), Texts("en"))
    assert written.startswith('{\n  "text": "')
    assert written.endswith("\n  ]\n}\n")
    assert "没有空闲的卡" in written
    assert list(json.loads(written)) == ["text", "blocks"]
