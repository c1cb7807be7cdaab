"""The extender's and kube-scheduler's klog lines, as real clusters of every version wrote them."""

from datetime import UTC, datetime

import pytest

from bot.hami.scheduler_logs.log_lines import lines_about, parse_line, pod_key_of
from tests.hami.build import NOW

HEAD = "I1121 04:59:58.123456   15866 "


def line(text, head=HEAD):
    return parse_line(head + text, NOW)


def about(*raws):
    return lines_about(raws, "ml", "wl-1", NOW)


# ------------------------------------------------------------------ one line


def test_a_structured_line():
    read = parse_line(
        'E1120 23:07:01.000001    1234 score.go:152] "Failed" err="no \\"way\\"" node="gpu-1" used=3 devices={"a":1}',
        NOW,
    )
    assert read is not None
    assert read.message == "Failed"
    assert read.at == datetime(2026, 11, 20, 23, 7, 1, 1, tzinfo=UTC)
    assert read.values == {"err": 'no "way"', "node": "gpu-1"}


def test_a_line_of_plain_text():
    read = line("webhook.go:69] Processing admission hook for pod ml/wl-1, UID:  - Allowing admission")
    assert read is not None
    assert read.message == "Processing admission hook for pod ml/wl-1, UID:  - Allowing admission"
    assert read.values == {}


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "panic: runtime error: index out of range",
        "goroutine 1 [running]:",
        '{"ts":1732165198,"msg":"json logging"}',
        "I1121 04:59:58 no micros",
        "X1121 04:59:58.123456   15866 a.go:1] x",
        "2026-11-21T04:59:58Z I1121 04:59:58.123456 1 a.go:1] x",
    ],
)
def test_other_text_is_no_klog_line(raw):
    assert parse_line(raw, NOW) is None


@pytest.mark.parametrize(
    ("written", "escaped"),
    [
        ('say "hi"', r"say \"hi\""),
        ("back\\slash", r"back\\slash"),
        ('\\"', r"\\\""),
        ("\\n", r"\\n"),
        ("two\nlines\tand a tab", r"two\nlines\tand a tab"),
        ("snow \u2603 man", "snow \u2603 man"),
        ("bell \a", r"bell \a"),
    ],
)
def test_go_quoted_values_are_unquoted(written, escaped):
    read = line(f'a.go:1] "msg" reason="{escaped}" node="n"')
    assert read is not None
    assert read.values == {"reason": written, "node": "n"}


def test_keys_may_hold_spaces_and_values_quotes_and_equals_signs():
    read = line(
        'score.go:86] "scoring pod" pod="ml/wl-1" card request={"Nums":1,"Type":"NVIDIA"} device index=0 '
        'device total memory="81920" selector="a=\\"b\\" pod=\\"ml/other\\"" node="n"'
    )
    assert read is not None
    assert read.values["device total memory"] == "81920"
    assert read.values["selector"] == 'a="b" pod="ml/other"'
    assert pod_key_of(read) == "ml/wl-1"


def test_a_key_that_hami_wrote_with_a_value_for_a_name_does_no_harm():
    read = line('nodelock.go:86] "NodeLock is not set" 2026-11-21T07:47:05Z,ml,gone-pod="pod" s12="(MISSING)"')
    assert read is not None
    assert pod_key_of(read) == ""


def test_the_year_is_the_newest_that_does_not_lie_in_the_future():
    at_new_year = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    assert parse_line("I1231 23:59:59.000000 1 a.go:1] x", at_new_year).at.year == 2025  # type: ignore[union-attr]
    assert parse_line("I0101 00:00:01.000000 1 a.go:1] x", at_new_year).at.year == 2026  # type: ignore[union-attr]
    assert parse_line("I0101 00:01:20.000000 1 a.go:1] x", at_new_year).at.year == 2026  # type: ignore[union-attr]


@pytest.mark.parametrize("stamp", ["1399 04:00:00.000000", "0229 04:00:00.000000", "1121 25:00:00.000000"])
def test_a_time_that_is_none_leaves_the_line_without_one(stamp):
    read = parse_line(f"I{stamp} 1 a.go:1] x", NOW)
    assert read is not None
    assert read.at is None


# ------------------------------------------------------------------ whose line it is


@pytest.mark.parametrize(
    "text",
    [
        'score.go:222] "NodeUnfitPod" pod="ml/wl-1" node="gpu-1"',
        'scheduler.go:533] "Starting schedule filter process" pod="wl-1" uuid="c3" namespace="ml"',
        'scheduler.go:1] "Scheduling pod to node" podNamespace="ml" podName="wl-1" nodeID="gpu-1"',
        'event.go:389] "Event occurred" object="ml/wl-1" fieldPath="" kind="Pod" type="Warning" reason="x" message="y"',
        'scheduler.go:2] "Attempting to bind pod to node" pod="wl-1" namespace="ml" node="gpu-1"',
        'schedule_one.go:99] "Unable to schedule pod; no fit; waiting" pod="ml/wl-1" err="0/3 nodes are available"',
    ],
)
def test_every_version_s_way_to_name_a_pod_is_known(text):
    assert len(about(HEAD + text)) == 1


@pytest.mark.parametrize("other", ["ml/wl-10", "ml/wl", "ml/awl-1", "mml/wl-1", "m/l/wl-1", "other/wl-1"])
def test_a_name_that_only_resembles_is_another_pod(other):
    assert about(HEAD + f'score.go:222] "NodeUnfitPod" pod="{other}" node="gpu-1"') == []


def test_a_pod_named_only_in_another_value_is_not_meant():
    assert about(HEAD + 'a.go:1] "x" pod="ml/other" message="pod=\\"ml/wl-1\\" ml/wl-1"') == []
    assert about(HEAD + "a.go:1] text about ml/wl-1") == []


def test_a_megabyte_of_words_is_read_at_once():
    read = line('a.go:1] "x" pod="ml/wl-1" text=' + "word " * 200_000)
    assert read is not None
    assert pod_key_of(read) == "ml/wl-1"
