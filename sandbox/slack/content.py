"""What a message or a view may contain: the rules that every way of posting shares."""

import copy
import secrets
from collections.abc import Collection, Iterator
from typing import Any

from sandbox.slack.errors import SlackError
from sandbox.slack.validate import Violation, validate_blocks, validate_view

TEXT_MOST = 40_000  # characters of a message; Slack cuts longer ones, here they are refused
_OWN_WORDS = {"msg_blocks_too_long", "invalid_attachments", "only_one_table_allowed"}  # errors that have their own name


def message_content(
    given: dict[str, Any], *, strict: bool, text_most: int = TEXT_MOST, without: Collection[str] = ()
) -> dict[str, Any]:
    """The text, blocks, attachments and metadata of a message, complete with block and action ids; copies.

    `without`: kinds of blocks that this workspace does not have yet.

    Raises SlackError: no_text, invalid_blocks_format, msg_too_long, invalid_blocks, msg_blocks_too_long.
    """
    text = given.get("text") or ""
    blocks = given.get("blocks") or []
    attachments = given.get("attachments") or []
    if not isinstance(blocks, list):
        raise SlackError("invalid_blocks_format")
    if not isinstance(text, str) or not isinstance(attachments, list):
        raise SlackError("invalid_arguments", "text is a string, attachments is a list")
    if not (text.strip() or blocks or attachments):
        raise SlackError("no_text")
    if len(text) > text_most:
        raise SlackError("msg_too_long")
    if any(isinstance(block, dict) and block.get("type") in without for block in blocks):
        raise SlackError("invalid_blocks")
    if strict and blocks:
        refuse(block_violations(blocks))
    content: dict[str, Any] = {"text": text}
    if blocks:
        content["blocks"] = with_ids(blocks)
    if attachments:
        content["attachments"] = copy.deepcopy(attachments)
    if given.get("metadata"):
        content["metadata"] = _metadata(given["metadata"])
    return content


def view_content(view: Any, *, strict: bool) -> dict[str, Any]:
    """A view complete with ids. Raises SlackError for one that Slack would not take."""
    if not isinstance(view, dict) or view.get("type") not in {"modal", "home"}:
        raise SlackError("invalid_arguments", "view is an object of type modal or home [json-pointer:/view/type]")
    if not isinstance(view.get("blocks"), list):
        raise SlackError("invalid_arguments", "missing required field: blocks [json-pointer:/view]")
    if strict:
        refuse(view_violations(view), word="invalid_arguments", root="/view")
    return copy.deepcopy(view) | {"blocks": with_ids(view["blocks"])}


def block_violations(blocks: list[Any]) -> tuple[dict[str, Any], ...]:
    """Findings in the shape of blocks.validate's errors[]."""
    return _listed(validate_blocks(blocks))


def view_violations(view: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return _listed(validate_view(view))


def refuse(violations: tuple[dict[str, Any], ...], *, word: str = "invalid_blocks", root: str = "/blocks") -> None:
    """Raises SlackError when there are violations."""
    if not violations:
        return
    word = next((found["code"] for found in violations if found["code"] in _OWN_WORDS), word)
    messages = [f"{found['message']} [json-pointer:{root}{found['pointer']}]" for found in violations]
    raise SlackError(word, *messages, violations=violations)


def with_ids(blocks: list[Any]) -> list[Any]:
    """A copy in which every block has a block_id and every interactive element an action_id, as Slack adds them."""
    blocks = copy.deepcopy(blocks)
    for block in blocks:
        if not isinstance(block, dict):
            continue
        if not block.get("block_id"):
            block["block_id"] = secrets.token_hex(3)
        for element in elements_of(block):
            if element.get("type") in _INTERACTIVE and not element.get("action_id"):
                element["action_id"] = secrets.token_hex(3)
    return blocks


def elements_of(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The elements of an actions, section, context or input block."""
    children = block.get("elements") if isinstance(block.get("elements"), list) else []
    for element in (*children, block.get("accessory"), block.get("element")):
        if isinstance(element, dict):
            yield element


_INTERACTIVE = {
    "button",
    "checkboxes",
    "channels_select",
    "conversations_select",
    "datepicker",
    "datetimepicker",
    "email_text_input",
    "external_select",
    "feedback_buttons",
    "file_input",
    "icon_button",
    "multi_channels_select",
    "multi_conversations_select",
    "multi_external_select",
    "multi_static_select",
    "multi_users_select",
    "number_input",
    "overflow",
    "plain_text_input",
    "radio_buttons",
    "rich_text_input",
    "static_select",
    "timepicker",
    "url_text_input",
    "users_select",
    "workflow_button",
}


def strings_of(value: Any) -> Iterator[str]:
    """All texts in a message, also deep in its blocks."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_of(inner)


def _metadata(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("event_type"), str):
        raise SlackError("invalid_metadata_format")
    if not isinstance(given.get("event_payload"), dict):
        raise SlackError("invalid_metadata_schema")
    return copy.deepcopy(given)


def _listed(violations: list[Violation]) -> tuple[dict[str, Any], ...]:
    return tuple(violation._asdict() for violation in violations)
