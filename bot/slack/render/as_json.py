"""A report's Slack message as JSON: what Slack's Block Kit Builder shows when it is pasted there."""

import json

from bot.report import Report
from bot.slack.render.report import render_report
from bot.texts import Texts


def slack_json(report: Report, say: Texts) -> str:
    """`{"text": …, "blocks": […]}` with one key per line, ending in a newline."""
    subject = "/".join(filter(None, (report.subject.namespace, report.subject.name)))
    question = " ".join(filter(None, (report.playbook, subject)))
    message = render_report(report, say, channel_buttons=False, words=question)
    shown = {"text": message.text, "blocks": message.blocks}
    return json.dumps(shown, ensure_ascii=False, indent=2) + "\n"
