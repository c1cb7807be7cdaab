"""Who may do what, how often, and every no written down."""

import contextlib
import logging
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from bot.access import Access, Action, Denied, decide_access
from bot.errors import BotError, NotAllowed, UsageError
from bot.slack.people import Groups
from bot.store import StoreError
from bot.texts import Text, in_english
from handlers.changes.types import AccessDenied, Person, Refused
from handlers.deps import Deps

_HOUR_S = 3600.0

log = logging.getLogger(__name__)


class NotKnown(BotError):  # noqa: N818  # what the person is told
    """Whether somebody may do what they asked for could not be found out now."""


class Guard:
    """`access` is as set."""

    def __init__(self, deps: Deps, access: Access, groups: Groups) -> None:
        self.access = access
        self._deps = deps
        self._groups = groups

    async def allowed(self, who: Person, action: Action, *, requester: str = "") -> None:
        """Raises AccessDenied, or NotKnown while Slack does not say which groups the person is in."""
        member = await self._groups.memberships(who.user)
        decision = decide_access(self.access, who.user, member.groups, who.channel, action, requester=requester)
        if not isinstance(decision, Denied):
            return
        if member.unread:
            text = Text("error-change.permissions-could-not-be-checked", why=member.unread.message)
            raise NotKnown(text, hint=Text("error-change.not-changed-try-again")) from member.unread
        raise AccessDenied(decision)

    async def denied(self, who: Person, action: Action, cluster: str) -> AccessDenied | None:
        """Why the person may not do that at all, for those who have to know before anything is shown."""
        try:
            async with self.refusals(who, action, cluster, {}):
                await self.allowed(who, action)
        except AccessDenied as error:
            return error
        return None

    async def count(self, who: Person, action: str, cluster: str, change_id: str) -> None:
        """Written down before it is counted, so that no two at once pass the limit together. Raises Refused."""
        store, most = self._deps.store, self.access.changes_per_hour
        detail = {"id": change_id}
        await store.audit.append(actor=who.user, action=action, target=cluster, outcome="requested", detail=detail)
        since = datetime.fromtimestamp(self._deps.now() - _HOUR_S, UTC).isoformat(timespec="microseconds")
        if await store.approvals.asked_for(who.user, since) > most:
            await store.audit.append(actor=who.user, action=action, target=cluster, outcome="over-limit", detail=detail)
            raise Refused(
                Text("error-change.too-many-within-an-hour", count=most),
                hint=Text("error-change.wait-or-ask-somebody-else"),
            )

    @contextlib.asynccontextmanager
    async def refusals(self, who: Person, action: str, target: str, detail: dict[str, str]) -> AsyncGenerator[None]:
        """Writes down whatever is answered with no."""
        try:
            yield
        except BotError as error:
            said_no = isinstance(error, NotAllowed | Refused | UsageError)
            await self.note_refusal(
                who,
                action,
                target,
                detail | {"why": in_english(error.message)},
                outcome="denied" if said_no else "failed",
            )
            raise

    async def note_refusal(
        self, who: Person, action: str, target: str, detail: dict[str, str], *, outcome: str = "denied"
    ) -> None:
        """A no stays one even where it cannot be written down."""
        noted = detail | {"channel": who.channel}
        try:
            await self._deps.store.audit.append(
                actor=who.user, action=action, target=target, outcome=outcome, detail=noted
            )
        except StoreError as error:
            log.warning("a refusal could not be written down: %s; %s %s %s", error, who.user, action, noted)
