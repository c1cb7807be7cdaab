"""Addresses and secrets of other services: nothing secret leaves in clear, and nothing that a header cannot have."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, SecretStr

from bot.errors import WrongValue
from bot.texts import Text

VISIBLE = re.compile(r"[!-~]+")
"""ASCII without spaces: what a header, or an address, may have."""


def never_in_clear(url: str) -> str:
    """The address if it is https, or http on loopback. Raises ValueError."""
    parts = parts_of(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        if not parts.hostname or not VISIBLE.fullmatch(url):
            raise WrongValue(Text("error-settings.no-address"))
        return url
    raise WrongValue(Text("error-settings.must-begin-with-https"))


def parts_of(url: str) -> SplitResult:
    """Its parts. Raises ValueError, which repeats nothing of it, where Python's own would: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongValue(Text("error-settings.no-address")) from None
    if port == 0:
        raise WrongValue(Text("error-settings.no-address"))
    return parts


def fits_a_header(secret: SecretStr) -> SecretStr:
    """Without the newline in which a Secret made from a file ends. Raises ValueError, which repeats nothing of it."""
    stripped = secret.get_secret_value().strip()
    if stripped and not VISIBLE.fullmatch(stripped):
        raise WrongValue(Text("error-settings.key-is-not-visible"))
    return SecretStr(stripped)


HeaderSecret = Annotated[SecretStr, AfterValidator(fits_a_header)]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
