import re
from collections import Counter

import pytest
from hypothesis import example, given
from markdown_it import MarkdownIt

from bot.render.markdown import markdown
from bot.render.terminal import visible
from bot.report import Gap, NextAction, Report, Scope, Subject, Table
from bot.texts import in_english
from tests.render import SAY, any_text, evidence, finding, report, reports, typical

TYPICAL = """\
## Pod ml/trainer-0: No usable GPU of gpu-1, gpu-2 has 24,000 MiB free; the largest free slice is 16,384 MiB on gpu-2.

why, cluster lab, 2026-11-21T05:00:00Z

### Findings

- `card-insufficient-memory` (warning, confirmed): No usable GPU of gpu-1, gpu-2 has 24,000 MiB free; the largest free slice is 16,384 MiB on gpu-2.
  nodes: gpu-1, gpu-2
  - event, Pod ml/trainer-0, 2026-11-21T04:59:40Z: `2 nodes CardInsufficientMemory(gpu-1,gpu-2)`
    Show it again: `kubectl -n ml get events --field-selector involvedObject.name=trainer-0`
  - scheduler log, Pod kube-system/hami-scheduler-7c9d container vgpu-scheduler-extender, 2026-11-21T02:45:00Z: `I1121 02:45:00.123456       1 score.go:275] "NodeUnfitPod" pod="ml/trainer-0" node="gpu-1" reason="8/8 CardInsufficientMemory"`
    Show it again: `kubectl -n kube-system logs hami-scheduler-7c9d -c vgpu-scheduler-extender | grep trainer-0`
  - Node gpu-1: `24k`
    Show it again: `kubectl get node gpu-1`
- `node-unregistered` (warning, suspected): gpu-3: the device plugin has registered no GPUs, so HAMi does not know the node.
  nodes: gpu-3
  - event, Pod ml/trainer-0, 2026-11-21T04:59:40Z: `2 nodes CardInsufficientMemory(gpu-1,gpu-2)`
- `kubernetes-filter` (info, confirmed): 4 node(s) are lost to kubernetes itself, before HAMi is asked: node(s) had untolerated taint(s)
  nodes: cp-1, cp-2, cpu-1, cpu-2
  - event, Pod ml/trainer-0, 2026-11-21T04:59:40Z: `2 nodes CardInsufficientMemory(gpu-1,gpu-2)`

### Next

- Request at most 16,384 MiB per GPU (gpu-2 would take the pod) · look:
  ```sh
  hami-bot gpus --node gpu-2
  ```
- Recreate the pod once it asks for less [changes the cluster]
  ```sh
  kubectl -n ml delete pod trainer-0
  ```
- Restart the device plugin on gpu-3 [changes the cluster]
  ```sh
  kubectl -n kube-system delete pod hami-plugin-x7k2p
  ```

### Candidate nodes

| verdict | reason | count | nodes |
| --- | --- | --- | --- |
| unfit | 8/8 CardInsufficientMemory | 2 | gpu-1, gpu-2 |
| unfit | node unregistered | 1 | gpu-3 |

### Could not be read

- quotas: GET resourcequotas: HTTP 403
  - grant list on resourcequotas in ml
"""  # noqa: E501

_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_OURS = {"paragraph", "heading", "bullet_list", "list_item", "fence", "table", "thead", "tbody", "tr", "th", "td"}
_INLINE = {"text", "text_special", "softbreak", "code_inline"}
_PINGS_OR_LINKS = re.compile(r"[@#<>$]|://|www\.|(?<!\d):[\w+-]+:|\bGH-\d", re.IGNORECASE)


def read(text):
    """The blocks and the inline pieces that a reader of Markdown sees."""
    tokens = _READER.parse(text)
    blocks = [token for token in tokens if token.type != "inline"]
    pieces = [piece for token in tokens for piece in token.children or ()]
    return blocks, pieces


def told(shown: Report):
    return markdown(shown, SAY)


def test_a_report_is_a_heading_its_findings_and_what_to_do():
    assert told(typical()) == TYPICAL


def test_a_long_quote_that_several_findings_rest_on_stands_once():
    quote = "0/22 nodes are available: " * 5
    shown = finding(evidence=(evidence(quote=quote),))
    text = told(report(shown, shown, shown))
    assert text.count(quote) == 1
    assert text.count("2026-11-21T04:59:40Z: quoted above\n") == 2


def test_many_nodes_are_abbreviated():
    text = told(report(finding(scope=Scope(tuple(f"n{number:02}" for number in range(40))))))
    assert "  nodes: n00, n01, n02, n03, n04, n05, n06 and 33 more\n" in text


def test_a_table_without_rows_says_so():
    assert told(report(tables=(Table("nodes", ("node",), ()),))).endswith("### Nodes\n\nnone\n")


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("ask @octocat about it", "ask `@octocat` about it"),
        ("see [here](http://evil)", "see `[here](http://evil)`"),
        ("see www.evil.com or a@evil.com", "see `www.evil.com` or `a@evil.com`"),
        ("# no heading", "`#` no heading"),
        ("- no list", "`-` no list"),
        ("fixes #12 and GH-12", "fixes `#12` and `GH-12`"),
        ("<img src=x>", "`<img` `src=x>`"),
        ("one\n\n---\n", r"`one\n\n---\n`"),
        ("`a` **b** _c_ :+1: $x$", "`` `a` `` `**b**` `_c_` `:+1:` `$x$`"),
        ("5406720 bytes since 1a2b3c4", "5406720 bytes since `1a2b3c4`"),
        ("of f.(*T).Fit, x_y. And ...", "of `f.(*T).Fit`, `x_y`. And ..."),
        ("node(s) at 06:11:21 want 100%, gpu-1.", "node(s) at 06:11:21 want 100%, gpu-1."),
    ],
)
def test_a_word_that_means_something_stands_as_code(why, shown):
    assert told(report(gaps=(Gap("log", why), Gap(why, "")))).split("- log: ")[1].startswith(shown + "\n")


def test_a_bar_in_a_cell_divides_no_cells():
    row = ("a|b", r"c\|d", "`|`", "|@octocat|")
    blocks, pieces = read(told(report(tables=(Table("t", ("w", "x", "y", "z"), (row,)),))))
    assert Counter(block.type for block in blocks)["td_open"] == 4
    text = "".join(piece.content for piece in pieces)
    assert text.endswith("wxyz" + "".join(row))


@given(reports(any_text()))
@example(report(gaps=(Gap("nodes", "timed out", " "),)))
def test_no_text_breaks_out_of_its_place(shown):
    blocks, pieces = read(told(shown))
    assert {block.type.removesuffix("_open").removesuffix("_close") for block in blocks} <= _OURS
    assert {piece.type for piece in pieces} <= _INLINE

    counted = Counter(block.type for block in blocks)
    actions = list(dict.fromkeys(action for finding in shown.findings for action in finding.next_actions))
    tables = [table for table in shown.tables if table.columns and table.rows]
    sections = bool(shown.findings) + bool(actions) + len(shown.tables) + bool(shown.gaps)
    assert counted["heading_open"] == 1 + sections
    assert counted["fence"] == sum(bool(action.command) for action in actions)
    assert counted["td_open"] == sum(len(table.columns) * len(table.rows) for table in tables)
    proofs = [proof for found in shown.findings for proof in found.evidence]
    hints = sum(bool(visible(in_english(gap.advice)).strip()) for gap in shown.gaps)
    assert counted["list_item_open"] == sum(map(len, (shown.findings, proofs, actions, shown.gaps))) + hints


@given(reports(any_text()))
def test_no_text_pings_or_links(shown):
    _, pieces = read(told(shown))
    assert [piece.content for piece in pieces if piece.type == "text" and _PINGS_OR_LINKS.search(piece.content)] == []


@given(any_text(), any_text())
def test_a_quote_and_its_command_are_read_as_they_were_written(quote, command):
    _, pieces = read(told(report(finding(evidence=(evidence(quote=quote, command=command),)))))
    code = [piece.content.strip(" ") for piece in pieces if piece.type == "code_inline"]
    assert code[1:] == [visible(code).strip(" ") for code in (quote, command) if code]


@given(any_text())
def test_a_command_to_run_is_read_as_it_was_written(command):
    blocks, _ = read(told(report(finding(evidence=(), next_actions=(NextAction("Do", f"kubectl {command}"),)))))
    assert [block.content for block in blocks if block.type == "fence"] == [f"kubectl {visible(command)}\n"]


@given(any_text())
def test_what_a_person_typed_stays_in_the_heading(name):
    blocks, _ = read(told(report(subject=Subject("Pod", "", name), verdict="No such pod.")))
    assert [block.type for block in blocks][:3] == ["heading_open", "heading_close", "paragraph_open"]
