"""What Slack takes: every field of Block Kit as one table, which `validate` walks. Fields are those of docs.slack.dev
(block and element pages) and of Slack's own type definitions in November 2026.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from bot.slack.render.text import (
    ACTIONS_ELEMENTS,
    BLOCKS_OF_VIEW,
    BUTTON_TEXT,
    BUTTON_VALUE,
    CONFIRM_BUTTON,
    CONFIRM_TEXT,
    CONFIRM_TITLE,
    CONTEXT_ELEMENTS,
    HEADER,
    LABEL,
    PLACEHOLDER,
    SECTION,
    TABLE_COLUMNS,
    TABLE_ROWS,
    VIEW_TITLE,
)

BLOCKS_OF_MESSAGE = 50
OPTIONS, OPTION_TEXT, OPTION_VALUE = 100, 75, 150
IDENTIFIER = 255
MARKDOWN_TOTAL = 12_000
PRIVATE_METADATA = 3000


class String(NamedTuple):
    most: int | None = None
    least: int = 1


class Url(NamedTuple):
    most: int = 3000


class OneOf(NamedTuple):
    values: tuple[str, ...]


class Number(NamedTuple):
    least: int = 0
    most: int | None = None


class Flag(NamedTuple):
    pass


class Items(NamedTuple):
    of: "Kind"
    most: int | None = None
    least: int = 1


class Shape(NamedTuple):
    """An object: its fields, those it needs, those of which it needs one; `more` may be in it and is not looked at."""

    fields: Mapping[str, "Kind"]
    needs: tuple[str, ...] = ()
    needs_one: tuple[str, ...] = ()
    more: bool = False


class Typed(NamedTuple):
    """An object whose `type` is one of these names and says which shape it has."""

    shapes: Mapping[str, Shape]


Kind: TypeAlias = String | Url | OneOf | Number | Flag | Items | Shape | Typed

_FLAG = Flag()
_ID = String(IDENTIFIER)
_ANY = String(least=0)


# -------------------------------------------------------------------------------------------------------- objects


def _plain(most: int) -> Typed:
    return Typed({"plain_text": Shape({"text": String(most), "emoji": _FLAG}, needs=("text",))})


def _text(most: int) -> Typed:
    return Typed({**_plain(most).shapes, "mrkdwn": Shape({"text": String(most), "verbatim": _FLAG}, needs=("text",))})


_CONFIRM = Shape(
    {
        "title": _plain(CONFIRM_TITLE),
        "text": _text(CONFIRM_TEXT),
        "confirm": _plain(CONFIRM_BUTTON),
        "deny": _plain(CONFIRM_BUTTON),
        "style": OneOf(("primary", "danger")),
    },
    needs=("title", "text", "confirm", "deny"),
)
_OPTION = Shape(
    {
        "text": _text(OPTION_TEXT),
        "value": String(OPTION_VALUE),
        "description": _text(OPTION_TEXT),
        "url": Url(),
    },
    needs=("text", "value"),
)
_OPTION_GROUP = Shape({"label": _plain(OPTION_TEXT), "options": Items(_OPTION, OPTIONS)}, needs=("label", "options"))
_DISPATCH = Shape(
    {"trigger_actions_on": Items(OneOf(("on_enter_pressed", "on_character_entered")), 2)},
    needs=("trigger_actions_on",),
)
_FILTER = Shape(
    {
        "include": Items(OneOf(("im", "mpim", "private", "public")), 4),
        "exclude_external_shared_channels": _FLAG,
        "exclude_bot_users": _FLAG,
    }
)
_SLACK_FILE = Shape({"id": String(), "url": Url()}, needs_one=("id", "url"))


# ------------------------------------------------------------------------------------------------------ rich text

_STYLE = Shape(dict.fromkeys(("bold", "italic", "strike", "code", "underline", "highlight", "unlink"), _FLAG))
_PIECES = Items(
    Typed(
        {
            "text": Shape({"text": String(), "style": _STYLE}, needs=("text",)),
            "link": Shape({"url": Url(), "text": String(), "style": _STYLE, "unsafe": _FLAG}, needs=("url",)),
            "emoji": Shape({"name": String(), "unicode": String(), "style": _STYLE}, needs=("name",), more=True),
            "user": Shape({"user_id": String(), "style": _STYLE}, needs=("user_id",)),
            "usergroup": Shape({"usergroup_id": String(), "style": _STYLE}, needs=("usergroup_id",)),
            "team": Shape({"team_id": String(), "style": _STYLE}, needs=("team_id",)),
            "channel": Shape({"channel_id": String(), "style": _STYLE}, needs=("channel_id",)),
            "broadcast": Shape({"range": OneOf(("here", "channel", "everyone"))}, needs=("range",)),
            "date": Shape(
                {"timestamp": Number(), "format": String(), "url": Url(), "fallback": String()},
                needs=("timestamp", "format"),
            ),
            "color": Shape({"value": String()}, needs=("value",)),
        }
    )
)
_RICH_SECTION = Shape({"elements": _PIECES}, needs=("elements",))
_RICH_PARTS = {
    "rich_text_section": _RICH_SECTION,
    "rich_text_quote": Shape({"elements": _PIECES, "border": Number(0, 1)}, needs=("elements",)),
    "rich_text_preformatted": Shape(
        {"elements": _PIECES, "border": Number(0, 1), "language": String()}, needs=("elements",)
    ),
    "rich_text_list": Shape(
        {
            "elements": Items(Typed({"rich_text_section": _RICH_SECTION})),
            "style": OneOf(("bullet", "ordered")),
            "indent": Number(0, 8),
            "offset": Number(),
            "border": Number(0, 1),
        },
        needs=("elements", "style"),
    ),
}
_RICH_TEXT = Shape({"elements": Items(Typed(_RICH_PARTS)), "block_id": _ID}, needs=("elements",))


# ------------------------------------------------------------------------------------------------------- elements

_FOCUS: dict[str, Kind] = {"action_id": _ID, "focus_on_load": _FLAG}
_ASKED: dict[str, Kind] = {**_FOCUS, "placeholder": _plain(PLACEHOLDER), "confirm": _CONFIRM}
_OFFERED: dict[str, Kind] = {"options": Items(_OPTION, OPTIONS), "option_groups": Items(_OPTION_GROUP, OPTIONS)}
_SEVERAL: dict[str, Kind] = {**_ASKED, "max_selected_items": Number(1)}
_TICKED: dict[str, Kind] = {**_FOCUS, "options": Items(_OPTION, 10), "confirm": _CONFIRM}
_OF_CHANNEL: dict[str, Kind] = {"response_url_enabled": _FLAG}
_OF_CONVERSATION: dict[str, Kind] = {**_OF_CHANNEL, "default_to_current_conversation": _FLAG, "filter": _FILTER}
_WRITING: dict[str, Kind] = {**_FOCUS, "placeholder": _plain(PLACEHOLDER), "dispatch_action_config": _DISPATCH}
_PRESSED: dict[str, Kind] = {
    "text": _plain(BUTTON_TEXT),
    "action_id": _ID,
    "style": OneOf(("primary", "danger")),
    "accessibility_label": String(75),
}

_BUTTONS = {
    "button": Shape(
        {**_PRESSED, "url": Url(), "value": String(BUTTON_VALUE, least=0), "confirm": _CONFIRM}, needs=("text",)
    ),
    "workflow_button": Shape(_PRESSED, needs=("text", "workflow"), more=True),
}
_CHOICES = {
    "static_select": Shape({**_ASKED, **_OFFERED, "initial_option": _OPTION}, needs_one=("options", "option_groups")),
    "multi_static_select": Shape(
        {**_SEVERAL, **_OFFERED, "initial_options": Items(_OPTION, OPTIONS)}, needs_one=("options", "option_groups")
    ),
    "external_select": Shape({**_ASKED, "initial_option": _OPTION, "min_query_length": Number()}),
    "multi_external_select": Shape(
        {**_SEVERAL, "initial_options": Items(_OPTION, OPTIONS), "min_query_length": Number()}
    ),
    "users_select": Shape({**_ASKED, "initial_user": String()}),
    "multi_users_select": Shape({**_SEVERAL, "initial_users": Items(String())}),
    "conversations_select": Shape({**_ASKED, **_OF_CONVERSATION, "initial_conversation": String()}),
    "multi_conversations_select": Shape({**_SEVERAL, **_OF_CONVERSATION, "initial_conversations": Items(String())}),
    "channels_select": Shape({**_ASKED, **_OF_CHANNEL, "initial_channel": String()}),
    "multi_channels_select": Shape({**_SEVERAL, "initial_channels": Items(String())}),
    "overflow": Shape({"action_id": _ID, "options": Items(_OPTION, 5), "confirm": _CONFIRM}, needs=("options",)),
    "checkboxes": Shape({**_TICKED, "initial_options": Items(_OPTION, 10)}, needs=("options",)),
    "radio_buttons": Shape({**_TICKED, "initial_option": _OPTION}, needs=("options",)),
    "datepicker": Shape({**_ASKED, "initial_date": String(10)}),
    "timepicker": Shape({**_ASKED, "initial_time": String(5), "timezone": String()}),
    "datetimepicker": Shape({**_FOCUS, "initial_date_time": Number(), "confirm": _CONFIRM}),
}
_WRITTEN = {
    "plain_text_input": Shape(
        {
            **_WRITING,
            "initial_value": String(3000, least=0),
            "multiline": _FLAG,
            "min_length": Number(0, 3000),
            "max_length": Number(1, 3000),
        }
    ),
    "email_text_input": Shape({**_WRITING, "initial_value": _ANY}),
    "url_text_input": Shape({**_WRITING, "initial_value": _ANY}),
    "number_input": Shape(
        {**_WRITING, "is_decimal_allowed": _FLAG, "initial_value": _ANY, "min_value": _ANY, "max_value": _ANY},
        needs=("is_decimal_allowed",),
    ),
    "rich_text_input": Shape({**_WRITING, "initial_value": Typed({"rich_text": _RICH_TEXT})}),
    "file_input": Shape({"action_id": _ID, "filetypes": Items(String()), "max_files": Number(1, 10)}),
}
_ON_ANSWERS = {
    "feedback_buttons": Shape({"action_id": _ID}, needs=("positive_button", "negative_button"), more=True),
    "icon_button": Shape({**_PRESSED, "value": String(BUTTON_VALUE, 0)}, needs=("icon", "text"), more=True),
}
_IMAGE = Shape(
    {"image_url": Url(), "slack_file": _SLACK_FILE, "alt_text": String(2000)},
    needs=("alt_text",),
    needs_one=("image_url", "slack_file"),
)


# --------------------------------------------------------------------------------------------------------- blocks

_ROW = Items(
    Typed(
        {
            "raw_text": Shape({"text": String()}, needs=("text",)),
            "raw_number": Shape({"value": Number(), "text": String()}, needs=("value", "text")),
            "rich_text": _RICH_TEXT,
        }
    ),
    TABLE_COLUMNS,
)
_COLUMN = Shape({"align": OneOf(("left", "center", "right")), "is_wrapped": _FLAG})
_CARD = Shape(
    {
        "title": _text(150),
        "subtitle": _text(150),
        "body": _text(200),
        "actions": Items(Typed({"button": _BUTTONS["button"]}), 3),
    },
    more=True,
)
_TASK = Shape({"task_id": String(), "title": String()}, needs=("task_id", "title"), more=True)

_EVERYWHERE: dict[str, Shape] = {
    "section": Shape(
        {
            "text": _text(SECTION),
            "fields": Items(_text(2000), 10),
            "accessory": Typed({**_BUTTONS, **_CHOICES, "image": _IMAGE}),
            "expand": _FLAG,
        },
        needs_one=("text", "fields"),
    ),
    "header": Shape({"text": _plain(HEADER), "level": Number(1, 6)}, needs=("text",)),
    "divider": Shape({}),
    "image": _IMAGE._replace(fields={**_IMAGE.fields, "title": _plain(2000)}),
    "context": Shape(
        {"elements": Items(Typed({**_text(SECTION).shapes, "image": _IMAGE}), CONTEXT_ELEMENTS)}, needs=("elements",)
    ),
    "actions": Shape({"elements": Items(Typed({**_BUTTONS, **_CHOICES}), ACTIONS_ELEMENTS)}, needs=("elements",)),
    "input": Shape(
        {
            "label": _plain(LABEL),
            "element": Typed({**_WRITTEN, **_CHOICES}),
            "hint": _plain(LABEL),
            "optional": _FLAG,
            "dispatch_action": _FLAG,
        },
        needs=("label", "element"),
    ),
    "rich_text": _RICH_TEXT,
    "card": _CARD,
    "video": Shape(
        {
            "alt_text": String(2000, 0),
            "title": _plain(200),
            "thumbnail_url": Url(),
            "video_url": Url(),
            "description": _plain(200),
            "author_name": String(50),
            "provider_name": String(),
            "provider_icon_url": Url(),
            "title_url": Url(),
        },
        needs=("alt_text", "title", "thumbnail_url", "video_url"),
    ),
}
_NOT_IN_MODALS: dict[str, Shape] = {
    "table": Shape({"rows": Items(_ROW, TABLE_ROWS), "column_settings": Items(_COLUMN, TABLE_COLUMNS)}, ("rows",)),
    "data_table": Shape(
        {
            "caption": String(),
            "rows": Items(_ROW, 101, 2),
            "page_size": Number(1, 100),
            "row_header_column_index": Number(),
        },
        needs=("caption", "rows"),
    ),
    "data_visualization": Shape({"title": String(50)}, needs=("title",), more=True),
    "carousel": Shape({"elements": Items(Typed({"card": _CARD}), 10)}, needs=("elements",)),
    "container": Shape(
        {"title": _plain(150), "child_blocks": Items(Typed(_EVERYWHERE), 10)}, needs=("child_blocks",), more=True
    ),
}
_ONLY_IN_MESSAGES: dict[str, Shape] = {
    "alert": Shape({"text": _text(200), "level": String()}, needs=("text",)),
    "context_actions": Shape({"elements": Items(Typed(_ON_ANSWERS), 5)}, needs=("elements",)),
    "file": Shape({"external_id": String(), "source": OneOf(("remote",))}, needs=("external_id", "source")),
    "markdown": Shape({"text": String(MARKDOWN_TOTAL)}, needs=("text",)),
    "plan": Shape({"title": String(), "tasks": Items(Typed({"task_card": _TASK}), 50, 0)}, needs=("title",), more=True),
    "task_card": _TASK,
}


def _blocks(*shapes: Mapping[str, Shape]) -> Typed:
    every = {name: shape for some in shapes for name, shape in some.items()}
    return Typed({name: shape._replace(fields={**shape.fields, "block_id": _ID}) for name, shape in every.items()})


MESSAGE = Items(_blocks(_EVERYWHERE, _NOT_IN_MODALS, _ONLY_IN_MESSAGES), BLOCKS_OF_MESSAGE, 0)
_HOME = Shape(
    {
        "blocks": Items(_blocks(_EVERYWHERE, _NOT_IN_MODALS), BLOCKS_OF_VIEW, 0),
        "callback_id": _ID,
        "external_id": String(IDENTIFIER, 0),
        "private_metadata": String(PRIVATE_METADATA, 0),
    },
    needs=("blocks",),
)
_MODAL = Shape(
    {
        **_HOME.fields,
        "blocks": Items(_blocks(_EVERYWHERE, {"alert": _ONLY_IN_MESSAGES["alert"]}), BLOCKS_OF_VIEW, 0),
        "title": _plain(VIEW_TITLE),
        "submit": _plain(VIEW_TITLE),
        "close": _plain(VIEW_TITLE),
        "clear_on_close": _FLAG,
        "notify_on_close": _FLAG,
        "submit_disabled": _FLAG,
    },
    needs=("title", "blocks"),
)
VIEW = Typed({"modal": _MODAL, "home": _HOME})
