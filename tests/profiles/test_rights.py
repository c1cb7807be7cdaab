"""What the chart has to grant for profiles: one right more, and only where it is asked for."""

from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.texts import in_english
from playbooks.profile.fetch import FetchedProfile
from tests.chart import BOT, granted, manifests
from tests.profiles.serving import HEAP, fetched, serving

PROXY = {"podsProxy": {"enabled": True}}


def test_with_pods_proxy_a_bot_that_only_reads_can_take_profiles(tmp_path: Path) -> None:
    server = serving("hami-2.10", "heap", granted=granted(manifests(PROXY), BOT))
    assert isinstance(fetched(tmp_path, HEAP, server).scene.outcome, FetchedProfile)


def test_without_it_the_bot_says_what_is_lacking(tmp_path: Path) -> None:
    server = serving("hami-2.10", "heap", granted=granted(manifests(), BOT))
    with pytest.raises(SourceError, match="403") as told:
        fetched(tmp_path, HEAP, server)
    assert "grant get on pods/proxy in namespace hami-system" in in_english(told.value.hint)
