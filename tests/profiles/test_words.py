"""What people write about profiles, and which kept one they mean."""

from datetime import UTC, datetime

import pytest

from bot.errors import NotFound, UsageError
from bot.store.profiles import KeptProfile
from bot.texts import in_english
from handlers.parsing.slack_grammar import understand
from handlers.profiles.kept import find_kept, is_reference, kind_meant
from handlers.profiles.words import ProfileAsked, ShowKept, Study, read_profile
from playbooks.profile.request import PodPort, Request

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC).timestamp()


def kept(profile_id: str, version: str, at: str) -> KeptProfile:
    moment = datetime.fromisoformat(f"2026-11-{at}+00:00").timestamp()
    return KeptProfile(
        profile_id, "lab", "https://a/b:443", profile_id.split("-", maxsplit=1)[0], version, moment, 30, 1
    )


KEPT = [
    kept("cpu-00000003", "2.10.0", "21T14:05:30"),
    kept("heap-00000002", "2.9.0", "21T12:00:00"),
    kept("cpu-00000002", "2.9.0", "20T16:00:00"),
    kept("cpu-00000001", "2.9.0", "20T15:00:00"),
]


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("cpu", Request("cpu", 30, None)),
        ("cpu 5s", Request("cpu", 5, None)),
        ("cpu for 2m", Request("cpu", 120, None)),
        ("cpu 45", Request("cpu", 45, None)),
        ("heap", Request("heap", 0, None)),
        ("allocs 10s", Request("allocs", 10, None)),
        ("kept", ShowKept()),
        ("top -cum cpu-00000001", Study(("top", "-cum", "cpu-00000001"))),
    ],
)
def test_what_is_asked_for(words: str, request_: object) -> None:
    assert read_profile(words.split()) == request_


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("kube-system/sched-0:10259", PodPort("kube-system", "sched-0", "https", 10259)),
        ("ml/api-0:6060", PodPort("ml", "api-0", "http", 6060)),
        ("https://ml/api-0:6060", PodPort("ml", "api-0", "https", 6060)),
    ],
)
def test_another_pod_is_named_with_its_port(target: str, address: PodPort) -> None:
    asked = understand(["profile", "heap", "--target", target])
    assert isinstance(asked, ProfileAsked)
    assert asked.request == Request("heap", 0, address)


@pytest.mark.parametrize(
    "target",
    [
        *("api-0:6060", "ml/api-0", "ml/api-0:0", "ml/api-0:70000", "ftp://ml/api-0:1", "../a:1"),
        *("169.254.169.254:80", "http://169.254.169.254:80", "http://169.254.169.254/latest/meta-data:80"),
        *("ml/../secrets:80", "ml/api-0%2f..:80", "ml/api-0:80/../../secrets", "ml/api-0@evil.example:80"),
    ],
)
def test_what_names_no_port_of_a_pod_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="NAMESPACE/POD:PORT"):
        understand(["profile", "heap", "--target", target])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a kind of profile"),
        (["cpux"], "did you mean 'cpu'"),
        (["cpu", "soon"], "is not a duration"),
        (["cpu", "0s"], "at least 1 s"),
        (["cpu", "5s", "6s"], "is not a duration"),
    ],
)
def test_what_makes_no_sense_gets_an_example(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        read_profile(words)
    assert "profile cpu 30s" in in_english(told.value.hint)


def test_more_seconds_than_the_settings_allow_are_refused() -> None:
    with pytest.raises(UsageError, match="300 s is too long: at most 120 s"):
        Request("cpu", 300).within(longest_s=120, limit_bytes=1)


@pytest.mark.parametrize(
    ("word", "kind", "found"),
    [
        ("cpu-00000001", "heap", "cpu-00000001"),
        ("v2.9.0", "cpu", "cpu-00000002"),
        ("2.9.0", "heap", "heap-00000002"),
        ("14:05", "cpu", "cpu-00000003"),
        ("14:04", "cpu", "cpu-00000002"),
        ("16:00", "cpu", "cpu-00000002"),
        ("2026-11-20T15:30", "cpu", "cpu-00000001"),
    ],
)
def test_a_kept_profile_is_named_by_id_version_or_time(word: str, kind: str, found: str) -> None:
    assert is_reference(word)
    assert find_kept(word, KEPT, kind, NOW).id == found


@pytest.mark.parametrize("word", ["cpu-00000009", "v2.8.0", "2026-11-20T14:00", "2026-99-99T14:00"])
def test_one_that_is_not_kept_is_told_with_those_that_are(word: str) -> None:
    with pytest.raises(NotFound, match=word) as told:
        find_kept(word, KEPT, "cpu", NOW)
    assert "cpu-00000003 (2.10.0, 2026-11-21T14:05:30Z)" in in_english(told.value.hint)


def test_the_kind_is_that_of_an_id_beside_it_else_cpu() -> None:
    assert kind_meant(["heap-00000002", "v2.10.0"], KEPT) == "heap"
    assert kind_meant(["v2.9.0", "v2.10.0"], KEPT) == "cpu"
    assert kind_meant(["v2.9.0"], [KEPT[1]]) == "heap"


@pytest.mark.parametrize("word", ["cpu.pb.gz", "main.decode", "/tmp/cpu-00000001", "cpu-0000000g", "-cum"])
def test_a_file_or_a_function_is_no_reference(word: str) -> None:
    assert not is_reference(word)
