import pytest

from bot.slack.render.text import total_text
from sandbox.slack.validate import TOTAL_REFUSED, validate_blocks, validate_view


def plain(size, text="x"):
    return {"type": "plain_text", "text": text * size}


def mrkdwn(size):
    return {"type": "mrkdwn", "text": "x" * size}


def section(**changed):
    return {"type": "section", "text": mrkdwn(1)} | changed


def button(**changed):
    return {"type": "button", "text": plain(1), "action_id": "a"} | changed


def actions(*elements):
    return {"type": "actions", "elements": list(elements)}


def select(options, **changed):
    return {"type": "static_select", "action_id": "a", "options": [option()] * options} | changed


def offered(one):
    return {"type": "static_select", "action_id": "a", "options": [one]}


def option(**changed):
    return {"text": plain(1), "value": "v"} | changed


def choices(kind, options):
    return select(options, type=kind)


def table(rows, columns, text="x"):
    return {"type": "table", "rows": [[{"type": "raw_text", "text": text}] * columns] * rows}


def image(**changed):
    return {"type": "image", "image_url": "https://example.org/a.png", "alt_text": "a card"} | changed


def asking(**changed):
    return {"type": "input", "label": plain(1), "element": {"type": "plain_text_input", "action_id": "a"}} | changed


def rich(*pieces):
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": list(pieces)}]}


def confirm(**sizes):
    usual = {"title": 1, "text": 1, "confirm": 1, "deny": 1} | sizes
    return {name: plain(size) for name, size in usual.items()}


def pointers(blocks):
    return [block.pointer for block in validate_blocks(blocks)]


# What Slack takes at most, and where it says so of one more.
LIMITS = {
    "blocks of a message": (50, lambda size: [section()] * size, ""),
    "text of a section": (3000, lambda size: [section(text=mrkdwn(size))], "/0/text/text"),
    "fields": (10, lambda size: [{"type": "section", "fields": [mrkdwn(1)] * size}], "/0/fields"),
    "text of a field": (2000, lambda size: [{"type": "section", "fields": [mrkdwn(size)]}], "/0/fields/0/text"),
    "header": (150, lambda size: [{"type": "header", "text": plain(size)}], "/0/text/text"),
    "context": (10, lambda size: [{"type": "context", "elements": [mrkdwn(1)] * size}], "/0/elements"),
    "actions": (25, lambda size: [actions(*(button(action_id=f"a{number}") for number in range(size)))], "/0/elements"),
    "label of a button": (75, lambda size: [actions(button(text=plain(size)))], "/0/elements/0/text/text"),
    "an astral character counts twice": (
        37,
        lambda size: [actions(button(text=plain(size, "😀")))],
        "/0/elements/0/text/text",
    ),
    "value of a button": (2000, lambda size: [actions(button(value="x" * size))], "/0/elements/0/value"),
    "accessibility_label": (
        75,
        lambda size: [actions(button(accessibility_label="x" * size))],
        "/0/elements/0/accessibility_label",
    ),
    "title of a dialog": (
        100,
        lambda size: [actions(button(confirm=confirm(title=size)))],
        "/0/elements/0/confirm/title/text",
    ),
    "text of a dialog": (
        300,
        lambda size: [actions(button(confirm=confirm(text=size)))],
        "/0/elements/0/confirm/text/text",
    ),
    "answer of a dialog": (
        30,
        lambda size: [actions(button(confirm=confirm(deny=size)))],
        "/0/elements/0/confirm/deny/text",
    ),
    "action_id": (255, lambda size: [actions(button(action_id="x" * size))], "/0/elements/0/action_id"),
    "block_id": (255, lambda size: [section(block_id="x" * size)], "/0/block_id"),
    "options": (100, lambda size: [actions(select(size))], "/0/elements/0/options"),
    "overflow": (5, lambda size: [actions(choices("overflow", size))], "/0/elements/0/options"),
    "radio": (10, lambda size: [actions(choices("radio_buttons", size))], "/0/elements/0/options"),
    "text of an option": (
        75,
        lambda size: [actions(offered(option(text=plain(size))))],
        "/0/elements/0/options/0/text/text",
    ),
    "value of an option": (
        150,
        lambda size: [actions(offered(option(value="x" * size)))],
        "/0/elements/0/options/0/value",
    ),
    "placeholder": (150, lambda size: [actions(select(1, placeholder=plain(size)))], "/0/elements/0/placeholder/text"),
    "words of an image": (2000, lambda size: [image(alt_text="x" * size)], "/0/alt_text"),
    "address of an image": (2992, lambda size: [image(image_url=f"https://{'x' * size}")], "/0/image_url"),
    "label of an input": (2000, lambda size: [asking(label=plain(size))], "/0/label/text"),
    "rows": (100, lambda size: [table(size, 2)], "/0/rows"),
    "columns": (20, lambda size: [table(1, size)], "/0/rows/0"),
}
TAKEN = [
    [section()],
    [{"type": "header", "text": plain(1)}],
    [actions(button(url="https://x"))],
    [actions(button(style="danger"))],
    [actions(button())],
    [actions(button())] * 2,
    [section(block_id="a"), section(block_id="b")],
    [actions(select(1))],
    [image()],
    [{"type": "image", "slack_file": {"id": "F1"}, "alt_text": "a"}],
    [asking()],
    [table(1, 1)],
    [{"type": "markdown", "text": "x" * 12_000}],
    [rich({"type": "text", "text": "x"})],
    [{"type": "divider"}],
]
# What Slack refuses, and where it says so.
REFUSED = {
    "an empty text": ([section(text=mrkdwn(0))], "/0/text/text"),
    "a section says something": ([{"type": "section"}], "/0"),
    "a header is plain": ([{"type": "header", "text": mrkdwn(1)}], "/0/text/type"),
    "address of a button": ([actions(button(url="javascript:x"))], "/0/elements/0/url"),
    "style of a button": ([actions(button(style="red"))], "/0/elements/0/style"),
    "a field that no button has": ([actions(button(disabled=True))], "/0/elements/0/disabled"),
    "the same action_id in a block": ([actions(button(), button())], "/0"),
    "the same block_id": ([section(block_id="a"), section(block_id="a")], "/1/block_id"),
    "no options": ([actions(select(0))], "/0/elements/0/options"),
    "neither options nor groups": ([actions({"type": "static_select", "action_id": "a"})], "/0/elements/0"),
    "image without words": ([{"type": "image", "image_url": "https://x"}], "/0/alt_text"),
    "image of a file": ([{"type": "image", "alt_text": "a"}], "/0"),
    "an input asks for something": ([{"type": "input", "label": plain(1)}], "/0/element"),
    "an empty cell": ([table(1, 1, "")], "/0/rows/0/0/text"),
    "two tables": ([table(1, 1)] * 2, "/1"),
    "markdown": ([{"type": "markdown", "text": "x" * 6_001}, {"type": "markdown", "text": "x" * 6_000}], ""),
    "rich text": ([rich({"type": "text", "text": ""})], None),
    "a piece that rich text does not have": ([rich({"type": "mrkdwn"})], None),
    "a kind of block that there is not": ([{"type": "graph"}], "/0/type"),
    "a block without a kind": ([{}], "/0/type"),
    "no block": ([1], "/0"),
}


@pytest.mark.parametrize(("most", "of_size", "pointer"), LIMITS.values(), ids=LIMITS)
def test_as_much_as_slack_takes_is_taken_and_one_more_is_refused_where_it_stands(most, of_size, pointer):
    assert validate_blocks(of_size(most)) == []
    assert pointers(of_size(most + 1)) == [pointer]


@pytest.mark.parametrize("blocks", TAKEN)
def test_what_slack_takes_is_taken(blocks):
    assert validate_blocks(blocks) == []


@pytest.mark.parametrize(("blocks", "pointer"), REFUSED.values(), ids=REFUSED)
def test_what_slack_refuses_is_refused_where_it_stands(blocks, pointer):
    [found] = pointers(blocks)
    assert pointer in (None, found)


def test_no_blocks_are_fine_and_what_is_no_list_is_not():
    assert validate_blocks([]) == []
    assert [block.constraint["type"] for block in validate_blocks({"blocks": []})] == ["array"]


def test_all_text_of_a_message_together_has_a_limit():
    blocks = [section(text=mrkdwn(2500)) for _ in range(5)]
    assert validate_blocks(blocks) == []
    codes = [block.code for block in validate_blocks([*blocks, section(text=mrkdwn(500))])]
    assert total_text(blocks) < TOTAL_REFUSED
    assert codes == ["msg_blocks_too_long"]


def test_a_violation_has_the_fields_of_blocks_validate():
    (found,) = validate_blocks([{"type": "header", "text": plain(151)}])
    assert found._asdict() == {
        "code": "failed_constraint",
        "message": "must be less than 151 characters",
        "field": "text",
        "pointer": "/0/text/text",
        "constraint": {"type": "max_length", "max": 150},
    }


def modal(*blocks, **changed):
    return {"type": "modal", "title": plain(24), "blocks": list(blocks)} | changed


VIEWS = {
    "title": (modal(), modal(title=plain(25)), "/title/text"),
    "no title": (modal(), {"type": "modal", "blocks": []}, "/title"),
    "submit": (modal(submit=plain(24)), modal(submit=plain(25)), "/submit/text"),
    "blocks of a view": (modal(*[section()] * 100), modal(*[section()] * 101), "/blocks"),
    "private_metadata": (modal(private_metadata="x" * 3000), modal(private_metadata="x" * 3001), "/private_metadata"),
    "callback_id": (modal(callback_id="x" * 255), modal(callback_id="x" * 256), "/callback_id"),
    "an input needs submit": (modal(asking(), submit=plain(1)), modal(asking()), "/submit"),
    "no table in a modal": ({"type": "home", "blocks": [table(1, 1)]}, modal(table(1, 1)), "/blocks/0/type"),
    "no markdown at home": (
        {"type": "home", "blocks": [section()]},
        {"type": "home", "blocks": [{"type": "markdown", "text": "x"}]},
        "/blocks/0/type",
    ),
    "a kind of view that there is not": (modal(), {"type": "window", "blocks": []}, "/type"),
    "no view": (modal(), [], ""),
}


@pytest.mark.parametrize("rule", VIEWS)
def test_a_view_is_held_against_the_same_table(rule):
    taken, refused, pointer = VIEWS[rule]
    assert validate_view(taken) == []
    assert [violation.pointer for violation in validate_view(refused)] == [pointer]


CELL = {"type": "raw_text", "text": "gpu-1"}
RICH = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "x"}]}]}


@pytest.mark.parametrize(
    "rows",
    [[[CELL, CELL], [CELL]], [[RICH], [CELL]], [[CELL]], [[CELL], [CELL | {"text": "x" * 10_000}]], [[CELL] * 21] * 2],
    ids=["of different lengths", "a rich heading", "a heading alone", "too long", "too wide"],
)
def test_a_data_table_that_slack_refuses_is_refused(rows):
    assert validate_blocks([{"type": "data_table", "caption": "Cards", "rows": rows}]) != []


def test_a_data_table_has_no_more_than_a_hundred_rows_below_its_heading():
    taken, refused = ({"type": "data_table", "caption": "Cards", "rows": [[CELL]] * rows} for rows in (101, 102))
    assert validate_blocks([taken]) == []
    assert len(validate_blocks([refused])) == 1
