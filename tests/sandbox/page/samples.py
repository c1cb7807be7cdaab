"""One message with every block, a modal with every input, and text that wants to do harm."""

from typing import Any

Block = dict[str, Any]


def plain(text: str) -> Block:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text}


def option(label: str, value: str) -> Block:
    return {"text": plain(label), "value": value}


def text_section(*elements: Block) -> Block:
    return {"type": "rich_text_section", "elements": list(elements)}


def span(text: str, **style: bool) -> Block:
    return {"type": "text", "text": text} | ({"style": style} if style else {})


NODES = [option("gpu-1", "1"), option("gpu-2", "2"), option("gpu-3", "3")]
CONFIRM = {
    "title": plain("Sure?"),
    "text": mrkdwn("This *drains* the node."),
    "confirm": plain("Drain"),
    "deny": plain("Keep"),
}

RICH_TEXT: Block = {
    "type": "rich_text",
    "block_id": "rich",
    "elements": [
        text_section(
            span("bold ", bold=True),
            span("italic ", italic=True),
            span("struck ", strike=True),
            span("code", code=True),
            span(" *not parsed* <!channel> &lt; "),
            {"type": "link", "url": "https://example.com/a", "text": "a link"},
            {"type": "emoji", "name": "rocket"},
            {"type": "user", "user_id": "U0ADA00001"},
            {"type": "broadcast", "range": "here"},
        ),
        {
            "type": "rich_text_list",
            "style": "ordered",
            "elements": [text_section(span("first")), text_section(span("second"))],
        },
        {"type": "rich_text_list", "style": "bullet", "indent": 1, "elements": [text_section(span("deeper"))]},
        {"type": "rich_text_quote", "elements": [span("quoted words")]},
        {"type": "rich_text_preformatted", "elements": [span("kubectl get pods -n ml\nNAME   READY")]},
    ],
}

TABLE: Block = {
    "type": "table",
    "block_id": "table",
    "column_settings": [{"align": "left", "is_wrapped": True}, {"align": "right"}],
    "rows": [
        [{"type": "raw_text", "text": "Node"}, {"type": "raw_text", "text": "Free MiB"}],
        [
            {"type": "raw_text", "text": "gpu-1"},
            {"type": "rich_text", "elements": [text_section(span("4096", bold=True))]},
        ],
    ],
}

DATA_TABLE: Block = {
    "type": "data_table",
    "block_id": "data-table",
    "caption": "Cards",
    "page_size": 2,
    "rows": [[{"type": "raw_text", "text": "Card"}, {"type": "raw_text", "text": "Used"}]]
    + [
        [{"type": "raw_text", "text": f"card-{n}"}, {"type": "raw_number", "value": n * 7 % 5, "text": str(n * 7 % 5)}]
        for n in range(5)
    ],
}


def chart(kind: str) -> Block:
    if kind == "pie":
        return {
            "type": "data_visualization",
            "title": "Share of pie",
            "chart": {"type": "pie", "segments": [{"label": "used", "value": 70}, {"label": "free", "value": 30}]},
        }
    points = [{"label": f"t{n}", "value": value} for n, value in enumerate((10, 35, 20))]
    series = [{"name": "gpu-1", "data": points}, {"name": "gpu-2", "data": points[::-1]}]
    axes = {"categories": ["t0", "t1", "t2"], "x_label": "time", "y_label": "GiB"}
    return {
        "type": "data_visualization",
        "title": f"Use as {kind}",
        "chart": {"type": kind, "series": series, "axis_config": axes},
    }


EVERY_BLOCK: list[Block] = [
    {"type": "header", "text": plain("Pod ml/trainer-0 is pending :eyes:")},
    {
        "type": "section",
        "text": mrkdwn(
            "*Cause:* `CardInsufficientMemory` on <https://example.com/gpu-1|gpu-1>\n> quoted\n```\npre\n```"
        ),
        "accessory": {"type": "button", "action_id": "again", "text": plain("Look again"), "value": "again"},
    },
    {"type": "section", "fields": [mrkdwn("*Asked*\n8000 MiB"), mrkdwn("*Free*\n4096 MiB")]},
    {
        "type": "section",
        "text": plain("Pick one"),
        "accessory": {"type": "static_select", "action_id": "node", "placeholder": plain("A node"), "options": NODES},
    },
    {"type": "divider"},
    {
        "type": "context",
        "elements": [mrkdwn("read at 12:01"), {"type": "image", "image_url": "/page/icon.svg", "alt_text": "logo"}],
    },
    {
        "type": "actions",
        "block_id": "acts",
        "elements": [
            {"type": "button", "action_id": "go", "text": plain("Go"), "style": "primary", "value": "v"},
            {
                "type": "button",
                "action_id": "drain",
                "text": plain("Drain"),
                "style": "danger",
                "value": "d",
                "confirm": CONFIRM,
            },
            {"type": "button", "action_id": "docs", "text": plain("Docs"), "url": "https://example.com/docs"},
            {"type": "static_select", "action_id": "pick", "placeholder": plain("Pick"), "options": NODES},
            {"type": "overflow", "action_id": "over", "options": [option("Copy", "copy"), option("Forget", "forget")]},
            {"type": "datepicker", "action_id": "day", "initial_date": "2026-11-21"},
            {"type": "radio_buttons", "action_id": "one", "options": NODES[:2]},
            {"type": "checkboxes", "action_id": "many", "options": NODES[:2]},
        ],
    },
    {"type": "image", "image_url": "/page/icon.svg", "alt_text": "a square", "title": plain("Own image")},
    {"type": "image", "image_url": "https://example.com/x.png", "alt_text": "far away"},
    {
        "type": "input",
        "block_id": "note",
        "label": plain("A note"),
        "element": {"type": "plain_text_input", "action_id": "note"},
        "hint": plain("kept over updates"),
    },
    RICH_TEXT,
    {
        "type": "markdown",
        "text": "## Heading\n\nSome **bold** and [a link](https://example.com/m).\n\n- one\n- two\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n```\ncode\n```",
    },
    TABLE,
    DATA_TABLE,
    *(chart(kind) for kind in ("line", "bar", "area", "pie")),
    {"type": "alert", "level": "warning", "text": mrkdwn("The cluster is *degraded*")},
    {
        "type": "context_actions",
        "elements": [
            {
                "type": "feedback_buttons",
                "action_id": "feedback",
                "positive_button": {"text": plain("Good"), "value": "up"},
                "negative_button": {"text": plain("Bad"), "value": "down"},
            }
        ],
    },
    {
        "type": "task_card",
        "task_id": "t1",
        "title": "Read the nodes",
        "status": "complete",
        "details": RICH_TEXT | {"elements": [text_section(span("3 nodes"))]},
    },
    {
        "type": "plan",
        "title": "Triage",
        "tasks": [
            {"type": "task_card", "task_id": "t2", "title": "Read the logs", "status": "in_progress"},
            {"type": "task_card", "task_id": "t3", "title": "Explain", "status": "error"},
        ],
    },
    {"type": "hologram", "depth": 3},
]

EVERY_INPUT: Block = {
    "type": "modal",
    "callback_id": "ask",
    "title": plain("Ask HAMi"),
    "submit": plain("Ask"),
    "close": plain("Cancel"),
    "notify_on_close": True,
    "blocks": [
        {
            "type": "input",
            "block_id": "pod",
            "label": plain("Pod"),
            "element": {"type": "plain_text_input", "action_id": "pod", "placeholder": plain("namespace/name")},
            "hint": plain("as in kubectl"),
        },
        {
            "type": "input",
            "block_id": "node",
            "label": plain("Node"),
            "optional": True,
            "element": {"type": "static_select", "action_id": "node", "options": NODES},
        },
        {
            "type": "input",
            "block_id": "find",
            "label": plain("Search"),
            "optional": True,
            "element": {"type": "external_select", "action_id": "find", "min_query_length": 2},
        },
        {
            "type": "input",
            "block_id": "depth",
            "label": plain("Depth"),
            "element": {
                "type": "radio_buttons",
                "action_id": "depth",
                "options": NODES[:2],
                "initial_option": NODES[0],
            },
        },
        {
            "type": "input",
            "block_id": "also",
            "label": plain("Also"),
            "optional": True,
            "element": {"type": "checkboxes", "action_id": "also", "options": NODES[:2]},
        },
        {
            "type": "input",
            "block_id": "since",
            "label": plain("Since"),
            "optional": True,
            "element": {"type": "datepicker", "action_id": "since"},
        },
    ],
}

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<javascript:alert(1)|click me>",
    "<data:text/html,hello|click me>",
    "<https://example.com/|https://bank.example> and <!channel> <!here> <!subteam^S1|@oncall>",
    "name\u202egnp.exe \u2066hidden\u2069",
    "*" * 3000 + "_" * 3000 + "`" * 3000 + "<" * 3000,
    "&amp;lt;b&amp;gt; &lt;b&gt;",
    "```" * 999 + "<!everyone>",
]
LONG = "x" * 200_000
