"""Values that several settings have: Slack's ids of channels, people and groups, addresses, and other services'
secrets. No secret is sent in clear, and no secret holds a character that a header cannot have.
"""

import ipaddress
import json
import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, WithJsonSchema
from pydantic_settings import NoDecode

from bot.errors import WrongValue
from bot.texts import Text

CHANNEL = re.compile(r"[CGD][A-Z0-9]{2,}")
PERSON = re.compile(r"[UWS][A-Z0-9]{2,}")
TEAM = re.compile(r"[TE][A-Z0-9]{2,}")


def channel_id(given: str) -> str:
    """The text, which must be a channel's id. Raises ValueError."""
    if not CHANNEL.fullmatch(given):
        raise WrongValue(Text("error-settings.no-channel-id"))
    return given


def written(pattern: str) -> WithJsonSchema:
    """The JSON schema of a text that a validator checks: Helm refuses other texts before the bot starts."""
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})$"})


def _lists(pattern: str) -> WithJsonSchema:
    several = rf"^\s*({pattern})?(\s*,\s*({pattern}))*\s*$"
    one = {"type": "string", "pattern": f"^({pattern})$"}
    return WithJsonSchema({"type": ["array", "string"], "items": one, "pattern": several})


def wrong_ones(given: Iterable[str], form: re.Pattern[str]) -> str:
    """The places, from 1, of texts that do not have the form; not the texts, which may be secrets by mistake."""
    return ", ".join(str(place) for place, one in enumerate(given, 1) if not form.fullmatch(one))


def listed(given: object) -> object:
    """A tuple of the entries of an environment's text: a JSON list, or ids with commas between. Other values pass."""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        return json.loads(given)
    return tuple(item.strip() for item in given.split(",") if item.strip())


def named_people(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The ids, which must all be of users or user groups. Raises ValueError."""
    if wrong := wrong_ones(ids, PERSON):
        raise WrongValue(Text("error-settings.entry-is-no-person-id", wrong=wrong))
    return ids


def _channels(ids: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := wrong_ones(ids, CHANNEL):
        raise WrongValue(Text("error-settings.entry-is-no-channel-id", wrong=wrong))
    return ids


def _workspaces(ids: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := wrong_ones(ids, TEAM):
        raise WrongValue(Text("error-settings.entry-is-no-workspace-id", wrong=wrong))
    return ids


Channel = Annotated[str, AfterValidator(channel_id), written(CHANNEL.pattern)]
MaybeChannel = Annotated[str, AfterValidator(lambda given: given and channel_id(given)), written(f"{CHANNEL.pattern}|")]
Listed = BeforeValidator(listed)
"""Reads a list from the environment: a JSON list, or ids with commas between them."""
Ids = Annotated[tuple[str, ...], NoDecode, Listed, _lists("[^,]+")]
People = Annotated[tuple[str, ...], NoDecode, Listed, AfterValidator(named_people), _lists(PERSON.pattern)]
Channels = Annotated[tuple[str, ...], NoDecode, Listed, AfterValidator(_channels), _lists(CHANNEL.pattern)]
Teams = Annotated[tuple[str, ...], NoDecode, Listed, AfterValidator(_workspaces), _lists(TEAM.pattern)]

VISIBLE = re.compile(r"[!-~]+")
"""ASCII without spaces: the characters that a header, or an address, may have."""


def never_in_clear(url: str) -> str:
    """The URL, which must be https, or http on loopback. Raises ValueError."""
    parts = parts_of(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        if not parts.hostname or not VISIBLE.fullmatch(url):
            raise WrongValue(Text("error-settings.no-address"))
        return url
    raise WrongValue(Text("error-settings.must-begin-with-https"))


def parts_of(url: str) -> SplitResult:
    """The parts of a URL. Raises ValueError, which repeats nothing of it, as Python's would: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongValue(Text("error-settings.no-address")) from None
    if port == 0:
        raise WrongValue(Text("error-settings.no-address"))
    return parts


def fits_a_header(secret: SecretStr) -> SecretStr:
    """The secret without the newline at the end of a file. Raises ValueError, which repeats nothing of it."""
    stripped = secret.get_secret_value().strip()
    if stripped and not VISIBLE.fullmatch(stripped):
        raise WrongValue(Text("error-settings.key-is-not-visible"))
    return SecretStr(stripped)


_SAFE = written(r"https://.+|http://(localhost|127\.|\[::1\]).*")
Address = Annotated[str, AfterValidator(never_in_clear), _SAFE]
BaseAddress = Annotated[str, AfterValidator(lambda url: never_in_clear(url).rstrip("/")), _SAFE]
Folder = Annotated[str, AfterValidator(lambda url: never_in_clear(url).rstrip("/") + "/"), _SAFE]
"""A safe address that ends with a slash."""
HeaderSecret = Annotated[SecretStr, AfterValidator(fits_a_header)]


def _is_there(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value():
        raise WrongValue(Text("error-settings.key-is-empty"))
    return secret


NeededSecret = Annotated[HeaderSecret, AfterValidator(_is_there)]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
