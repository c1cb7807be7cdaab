"""What the API server says when it refuses HAMi's service account, in logs, events and conditions."""

import re
from typing import NamedTuple

_REFUSED = re.compile(r'User \\*"(system:serviceaccount:[^"\\]+)\\*" cannot (\w+) resource \\*"([^"\\]+)')


class Forbidden(NamedTuple):
    """Who may not do what: a service account as `kubectl --as` takes it, a verb and a resource of RBAC."""

    account: str
    verb: str
    resource: str


def read_forbidden(text: str) -> Forbidden | None:
    """The refusal that the text tells; None where it tells none."""
    found = _REFUSED.search(text)
    return Forbidden(*found.groups()) if found else None
