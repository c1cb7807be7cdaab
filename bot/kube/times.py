"""Kubernetes' times: RFC 3339 text in, aware UTC datetimes out."""

from datetime import UTC, datetime


def parse_time(text: str | None) -> datetime | None:
    """The moment that the text names, in UTC; None when there is no text or it is no RFC 3339 time."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return None


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds: `2026-11-21T05:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
