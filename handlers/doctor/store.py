"""The links to the store, and, as the store remembers it, to Alertmanager."""

import time

from bot.settings.oncall import OncallSettings
from bot.settings.schema import Settings
from bot.store import StoreError, open_marks
from bot.store.engine import NoStoreError, OlderStoreError
from bot.store.facts import Mark
from bot.texts import Text
from handlers.doctor.links import Link, broken
from handlers.doctor.selftest import BLIND
from handlers.health_monitor import HEARD

_MINUTE_S = 60


async def examine_store(settings: Settings) -> list[Link]:
    """The store is read as it is: nothing is made, upgraded or taken over from the bot that has it open."""
    oncall = settings.oncall
    try:
        async with open_marks(settings.store.url.get_secret_value()) as marks:
            heard = await marks.all(HEARD)
            blind = await marks.all(BLIND)
    except (NoStoreError, OlderStoreError) as error:
        return [broken("store", error, state="degraded")]
    except StoreError as error:
        return [broken("store", error)]
    links = [Link("store", "ok", Text("doctor.store")), *(_blind(mark) for mark in blind)]
    return [*links, _alertmanager(oncall, max((mark.at for mark in heard), default=0.0))] if oncall else links


def _blind(mark: Mark) -> Link:
    """What the running bot found out about itself, with the credentials that it has."""
    seen = Text("doctor.blind", minutes=_minutes_since(mark.at), why=mark.text)
    return Link("self-test", "failed", seen, Text("doctor.blind-fix"), mark.name.removeprefix(BLIND))


def _minutes_since(at: float) -> int:
    return round((time.time() - at) / _MINUTE_S)


def _alertmanager(oncall: OncallSettings, heard: float) -> Link:
    """Whether alerts arrive, as its Watchdog shows."""
    if not heard:
        return Link("alertmanager", "degraded", Text("doctor.never-heard"), Text("doctor.heard-fix"))
    minutes = _minutes_since(heard)
    if oncall.watchdog_minutes and minutes > oncall.watchdog_minutes:
        return Link("alertmanager", "failed", Text("doctor.not-heard", minutes=minutes), Text("doctor.heard-fix"))
    return Link("alertmanager", "ok", Text("doctor.heard", minutes=minutes))
