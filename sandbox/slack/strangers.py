"""Other apps that post alerts: what they send to their incoming webhooks, and what Slack keeps of it.

The shapes are those of Alertmanager's and Grafana's Slack receivers with their own templates, and of the many tools
that put blocks beside a coloured bar: none says its details in the message's own text.
"""

from collections.abc import Mapping
from typing import Any

from sandbox.slack.content import message_content
from sandbox.slack.workspace import Record
from sandbox.slack.world import World

_COLOURS = {"good": "2eb886", "warning": "daa038", "danger": "a30200"}
_NONE: Mapping[str, str] = {}
_GRAFANA_ICON = "https://grafana.com/static/assets/img/fav32.png"


def alertmanager(
    labels: Mapping[str, str], *, text: str = "", fields: Mapping[str, str] = _NONE, firing: bool = True
) -> Record:
    """The message of one alert that Alertmanager groups by its name. With its own templates `text` is empty."""
    link = "http://alertmanager.example:9093/#/alerts?receiver=slack"
    title = _title(labels, firing=firing)
    attachment: Record = {
        "title": title,
        "title_link": link,
        "text": text,
        "fallback": f"{title} | {link}",
        "color": "danger" if firing else "good",
        "mrkdwn_in": ["fallback", "pretext", "text"],
    }
    if fields:
        attachment["fields"] = [{"title": name, "value": value, "short": True} for name, value in fields.items()]
    return {"username": "Alertmanager", "attachments": [attachment]}


def grafana(
    labels: Mapping[str, str],
    annotations: Mapping[str, str] = _NONE,
    *,
    links: Mapping[str, str] = _NONE,
    firing: bool = True,
) -> Record:
    """The message of one alert of Grafana's alerting. `links` by their word: Source, Silence, Dashboard, Panel."""
    lines = ["**Firing**" if firing else "**Resolved**", "", "Value: A=1, C=1", "Labels:"]
    lines += [f" - {name} = {value}" for name, value in sorted(labels.items())]
    lines += ["Annotations:", *(f" - {name} = {value}" for name, value in sorted(annotations.items()))]
    lines += [f"{word}: {link}" for word, link in links.items()]
    title = _title(labels, firing=firing)
    attachment: Record = {
        "title": title,
        "title_link": "http://grafana.example:3000/alerting/list",
        "text": "\n".join(lines) + "\n",
        "fallback": title,
        "color": "#D63232" if firing else "#36a64f",
        "footer": "Grafana v11.2.0",
        "footer_icon": _GRAFANA_ICON,
        "ts": 1_700_000_000,
    }
    return {"username": "Grafana", "attachments": [attachment]}


def colour_bar(text: str, fields: Mapping[str, str] = _NONE, *, colour: str = "#d00000") -> Record:
    """Blocks beside a coloured bar: a section of mrkdwn, and one with `fields`. `text` is mrkdwn."""
    blocks: list[Record] = [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]
    if fields:
        shown = [{"type": "mrkdwn", "text": f"*{name}*\n{value}"} for name, value in fields.items()]
        blocks.append({"type": "section", "fields": shown})
    return {"username": "Watchtower", "attachments": [{"color": colour, "blocks": blocks}]}


def foreign_message(world: World, given: Record, thread_ts: str = "") -> Record:
    """What Slack keeps of a message that came by another app's incoming webhook, with a ts of its own. Raises
    SlackError as `message_content` does.
    """
    content = message_content(given, strict=False)
    if "attachments" in content:
        content["attachments"] = [
            _kept(attachment, number) for number, attachment in enumerate(content["attachments"], start=1)
        ]
    message = {
        "type": "message",
        "subtype": "bot_message",
        "ts": world.workspace.stamp(),
        "username": given.get("username") or "incoming-webhook",
        "bot_id": "B0WEBHOOK1",
        **content,
    }
    return message | ({"thread_ts": thread_ts} if thread_ts else {})


def _kept(attachment: Record, number: int) -> Record:
    """Slack numbers attachments, gives each a fallback, and writes colours without their #."""
    colour: Any = attachment.get("color", "")
    kept = {"id": number, "fallback": "[no preview available]", **attachment}
    return kept | ({"color": _COLOURS.get(colour, colour.removeprefix("#"))} if colour else {})


def _title(labels: Mapping[str, str], *, firing: bool) -> str:
    """The subject that both make: state, name, and in brackets the values of the other labels by their names."""
    others = " ".join(value for name, value in sorted(labels.items()) if name != "alertname")
    state = "FIRING:1" if firing else "RESOLVED"
    return f"[{state}] {labels.get('alertname', '')} ({others})"
