"""Handshakes in every form that nodes carry, and what each version concludes from them."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.hami.nodes.registration import Handshake, judge_by_guides, parse_handshake
from tests.hami.build import NOW, V25, V26, V27, V28, V29, V210, VERSIONS


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def written(state: str, ago: float) -> Handshake:
    """A scheduler's handshake of so many seconds ago, as it stands on the node."""
    return parse_handshake(f"{state}_{NOW - timedelta(seconds=ago):%Y-%m-%d %H:%M:%S}")


@pytest.mark.parametrize(
    ("text", "state", "at", "zoned"),
    [
        ("Reported 2024-11-10 11:05:48.756620661 +0000 UTC m=+2976.6768", "reported", "2024-11-10T11:05:48", True),
        ("Reported 2025-08-06 13:51:42.5 +0800 CST m=+1.5", "reported", "2025-08-06T05:51:42", True),
        ("Reported 2025-08-06 00:10:00 -0930 -0930", "reported", "2025-08-06T09:40:00", True),
        ("Requesting_2024.11.11 05:16:13", "requesting", "2024-11-11T05:16:13", False),
        ("Requesting_2025-08-07 11:28:25", "requesting", "2025-08-07T11:28:25", False),
        ("Deleted_2025-08-07 11:28:25", "deleted", "2025-08-07T11:28:25", False),
        ("Deleted_2024.11.11 05:16:13", "deleted", "2024-11-11T05:16:13", False),
        ("Requesting_", "requesting", None, False),
        ("Requesting_2025-13-40 99:99:99", "requesting", None, False),
        ("Deleted_once", "deleted", None, False),
        ("Reported", "reported", None, False),
        ("1755561600", "unix", "2025-08-19T00:00:00", True),
        ("1755561600000", "unix", "2025-08-19T00:00:00", True),
        (" 1755561600 ", "unix", "2025-08-19T00:00:00", True),
        ("2025-08-07T11:28:25Z", "time", "2025-08-07T11:28:25", True),
        ("2025-08-07T11:28:25+08:00", "time", "2025-08-07T03:28:25", True),
        ("", "unreadable", None, False),
        ("true", "unreadable", None, False),
        ("12345", "unreadable", None, False),
        ("Requesting_0001-01-01 00:00:00 +2359", "requesting", None, False),
    ],
)
def test_every_form_is_understood(text, state, at, zoned):
    read = parse_handshake(text)
    assert (read.state, read.zoned) == (state, zoned)
    assert (read.at and read.at.replace(microsecond=0)) == (at and moment(at))


def test_the_scheduler_s_times_have_no_zone_and_are_taken_as_utc():
    """2.4 to 2.8 read them back as UTC themselves; from 2.9 on they are local times of an unseen zone."""
    assert parse_handshake("Requesting_2025-08-07 11:28:25") == Handshake(
        "requesting", moment("2025-08-07T11:28:25"), zoned=False
    )


# ------------------------------------------------------------------ up to 2.7: the handshake alone


@pytest.mark.parametrize("version", [V25, V26, V27])
@pytest.mark.parametrize("allocatable", [0, 80])
def test_up_to_2_7_a_request_may_go_unanswered_for_a_minute_whatever_kubelet_offers(version, allocatable):
    def judged(handshake):
        return judge_by_guides(handshake, version, allocatable, NOW)

    assert judged(None) == "alive"
    assert judged(parse_handshake("Reported 2020-01-01 00:00:00 +0000 UTC")) == "alive"
    assert judged(written("Requesting", 60)) == "alive"
    assert judged(written("Requesting", 61)) == "stale"
    assert judged(written("Requesting", -28800)) == "alive"
    assert judged(written("Deleted", 0)) == "deleted"
    assert judged(written("Deleted", 99999)) == "deleted"
    assert judged(parse_handshake("anything else")) == "alive"


@pytest.mark.parametrize("version", [V25, V26, V27])
def test_a_request_whose_time_cannot_be_read_is_overdue(version):
    assert judge_by_guides(parse_handshake("Requesting_soon"), version, 80, NOW) == "stale"


# ------------------------------------------------------------------ from 2.8: what kubelet offers


@pytest.mark.parametrize("version", [V28, V29, V210])
def test_from_2_8_a_node_with_allocatable_cards_is_alive_however_old_its_handshake(version):
    for text in ("Requesting_2020-01-01 00:00:00", "Deleted_2020-01-01 00:00:00", "Reported 2020", "x"):
        assert judge_by_guides(parse_handshake(text), version, 1, NOW) == "alive"
    assert judge_by_guides(None, version, 1, NOW) == "alive"


def test_2_8_never_takes_in_a_node_without_allocatable_cards():
    for handshake in (None, written("Requesting", 1), written("Deleted", 1), parse_handshake("Reported 2026")):
        assert judge_by_guides(handshake, V28, 0, NOW) == "stale"


@pytest.mark.parametrize("version", [V29, V210])
def test_without_allocatable_cards_2_9_and_2_10_give_up_after_a_minute_and_start_anew_without_a_request(version):
    assert judge_by_guides(written("Requesting", 61), version, 0, NOW) == "stale"
    assert judge_by_guides(written("Requesting", 30), version, 0, NOW) == "unknown"
    assert judge_by_guides(None, version, 0, NOW) == "unknown"
    assert judge_by_guides(parse_handshake("Requesting_soon"), version, 0, NOW) == "unknown"


def test_deleted_stands_for_a_minute_in_2_9_and_means_nothing_in_2_10():
    assert judge_by_guides(written("Deleted", 30), V29, 0, NOW) == "deleted"
    assert judge_by_guides(written("Deleted", 61), V29, 0, NOW) == "unknown"
    assert judge_by_guides(written("Deleted", 30), V210, 0, NOW) == "unknown"


# ------------------------------------------------------------------ the guides' form


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_unix_seconds_are_judged_by_the_guides_five_minutes(version):
    now = int(NOW.timestamp())
    assert judge_by_guides(parse_handshake(str(now - 300)), version, 80, NOW) == "alive"
    assert judge_by_guides(parse_handshake(str(now - 301)), version, 80, NOW) == "stale"
