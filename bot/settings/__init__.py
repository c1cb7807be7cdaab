"""Settings: one YAML file and the environment over it. The only reader of the environment.

`HAMI_BOT_CLUSTERS__LAB__KUBECONFIG=/etc/lab` sets `clusters.lab.kubeconfig`. The schema is imported only when there is
something to check: pydantic-settings takes 0.4 s, a whole `why` on a recording less.
"""

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bot.errors import UsageError
from bot.safe_yaml import parse_documents

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from bot.settings.schema import Settings

PREFIX = "HAMI_BOT_"
CONFIG_VARIABLE = "HAMI_BOT_CONFIG"
_SERVICE_VARIABLES = ("HAMI_BOT_SERVICE_", "HAMI_BOT_PORT")
"""What kubelet sets in every pod of a namespace with a Service called hami-bot."""
_NOT_SETTINGS = (CONFIG_VARIABLE, "HAMI_BOT_TEST_KUBECONFIG", "HAMI_BOT_TEST_POSTGRES")


def load_settings(config: Path | None = None) -> "Settings | None":
    """The settings from the file (else the one that HAMI_BOT_CONFIG names) and the environment; None when neither is.

    Raises UsageError that names every bad key; values are not repeated, they may be secret.
    """
    environment = os.environ  # noqa: TID251  # this module is the one reader
    ours = sorted(
        name
        for name in environment
        if name.upper().startswith(PREFIX) and name not in _NOT_SETTINGS and not name.startswith(_SERVICE_VARIABLES)
    )
    named = environment.get(CONFIG_VARIABLE)
    path = config or (Path(named) if named else None)
    if path is None and not ours:
        return None
    from pydantic import ValidationError  # noqa: PLC0415  # see the module's docstring
    from pydantic_settings import SettingsError  # noqa: PLC0415

    from bot.settings.schema import Settings  # noqa: PLC0415

    fields = {PREFIX + name.upper() for name in Settings.model_fields}
    if unknown := [name for name in ours if name.upper().split("__")[0] not in fields]:
        known = ", ".join(sorted(fields))
        raise UsageError(f"unknown setting in the environment: {', '.join(unknown)}", hint=f"Known: {known}.")
    try:
        return Settings(**(_read(path, set(Settings.model_fields)) if path else {}))
    except SettingsError as error:
        raise UsageError(f"a setting in the environment cannot be read: {error}") from None
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {_problem(problem)}" for problem in error.errors())
        raise UsageError(f"settings{f' in {path}' if path else ''} are wrong: {problems}") from None


def variable(name: str) -> str:
    """The value of one setting in the environment, such as `SLACK__BOT_TOKEN`, before there are settings to load."""
    return os.environ.get(PREFIX + name, "")  # noqa: TID251  # this module is the one reader


def _problem(error: "ErrorDetails") -> str:
    """What pydantic says; of a key that there is not, the one that it looks like."""
    if error["type"] != "extra_forbidden":
        return error["msg"]
    from bot.settings.schema import Settings  # noqa: PLC0415  # see the module's docstring

    sections = Settings.model_json_schema().get("$defs", {}).values()
    known = sorted({name for section in sections for name in section.get("properties", ())})
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
    return f"there is no such setting; did you mean {near[0]}?" if near else "there is no such setting"


def _read(path: Path, known: set[str]) -> dict[str, Any]:
    try:
        document: object = next(iter(parse_documents(path.read_text(encoding="utf-8"))), None)
    except OSError as error:
        hint = "check the path and its permissions; hami-bot init writes a settings file"
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}", hint=hint) from error
    except (RecursionError, ValueError) as error:
        raise UsageError(f"the settings file {path} is not YAML: {' '.join(str(error).split())}") from error
    if document is not None and not isinstance(document, dict):
        raise UsageError(f"the settings file {path} does not hold a mapping of settings")
    settings = cast("dict[Any, Any]", document or {})
    if unknown := sorted(str(key) for key in settings if key not in known):
        raise UsageError(
            f"unknown settings in {path}: {', '.join(unknown)}", hint=f"Known: {', '.join(sorted(known))}."
        )
    return settings
