"""Settings: one YAML file, overridden by the environment. Only this module reads the environment.

`HAMI_BOT_CLUSTERS__LAB__KUBECONFIG=/etc/lab` sets `clusters.lab.kubeconfig`. The schema is imported only when there are
settings to check: pydantic-settings takes 0.4 s, a whole `why` on a recording less.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bot.errors import UsageError, WrongValue, of_system
from bot.safe_yaml import line_of, parse_documents, reason
from bot.texts import Prose, Text, clauses

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from bot.settings.schema import Settings

PREFIX = "HAMI_BOT_"
CONFIG_VARIABLE = "HAMI_BOT_CONFIG"
USUAL_FILE = Path("hami-bot.yaml")
"""The settings file that `init` writes, and that `serve` and `doctor` read from the folder where they start."""
_SERVICE_VARIABLES = ("HAMI_BOT_SERVICE_", "HAMI_BOT_PORT")
"""Variables that kubelet sets in every pod of a namespace with a Service called hami-bot."""
_NOT_SETTINGS = (CONFIG_VARIABLE, "HAMI_BOT_TEST_KUBECONFIG", "HAMI_BOT_TEST_POSTGRES")


def load_settings(config: Path | None = None) -> "Settings | None":
    """The settings from the file (else the one that HAMI_BOT_CONFIG names) and the environment; None without both.
    Raises UsageError that names every bad key but repeats no value, which may be secret.
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
        raise UsageError(
            Text("error-settings.unknown-in-environment", unknown=", ".join(unknown)),
            hint=Text("error-settings.known", known=known),
        )
    text = ""
    try:
        text = path.read_text(encoding="utf-8") if path else ""
        return Settings(**_read(path, text, set(Settings.model_fields)))
    except OSError as error:
        why = Text("error-settings.file-cannot-be-read", path=path, why=of_system(error))
        raise UsageError(why, hint=Text("error-settings.check-path")) from error
    except UnicodeDecodeError as error:
        raise UsageError(Text("error-settings.file-is-not-yaml", path=path, reason=reason(error))) from None
    except SettingsError as error:
        raise UsageError(Text("error-settings.environment-unreadable", why=str(error))) from None
    except ValidationError as error:
        problems = clauses(_problem(problem, text, ours) for problem in error.errors(include_input=False))
        if path:
            raise UsageError(Text("error-settings.wrong-in-file", path=path, problems=problems)) from None
        raise UsageError(Text("error-settings.wrong", problems=problems)) from None


def usual_config(config: Path | None) -> Path | None:
    """The named file; else the usual one, where it exists and HAMI_BOT_CONFIG is not set; else None."""
    named = config or os.environ.get(CONFIG_VARIABLE)  # noqa: TID251  # this module is the one reader
    return config if named or not USUAL_FILE.is_file() else USUAL_FILE


def variable(name: str) -> str:
    """The environment's value of one setting, such as `SLACK__BOT_TOKEN`, before settings are loaded; empty without."""
    return os.environ.get(PREFIX + name, "")  # noqa: TID251  # this module is the one reader


def _problem(error: "ErrorDetails", text: str, ours: list[str]) -> Prose:
    """What pydantic says and of which setting; of a key that there is not, the one that it looks like. Only keys of the
    schema are repeated: what else is written where a key should be may be a secret.
    """
    loc, known = error["loc"], _known()
    variable = PREFIX + "__".join(map(str, loc)).upper()
    given = [name for name in ours if f"{variable}__".startswith(f"{name.upper()}__")]
    line = line_of(text, loc)
    place = given[0] if given else Text("error-settings.line", line=line) if line else ""
    context = error.get("ctx", {})
    said = _SAID[error["type"]](context) if error["type"] in _SAID else error["msg"]
    if isinstance(wrong := context.get("error"), WrongValue):
        said = Text("error-settings.value-error", why=wrong.text)
    elif error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(loc[-1]), known, n=1)
        no_such = Text("error-settings.no-such-setting")
        said = Text("error-settings.did-you-mean", near=near[0]) if near else no_such
    names = ".".join(str(part) if isinstance(part, int) or part in known else "NAME" for part in loc)
    where = Text("error-settings.setting-at", names=names, place=place) if place else names
    return Text("error.at", place=where, why=said) if names else said


_SAID: Mapping[str, Callable[[Mapping[str, Any]], Prose]] = {
    "missing": lambda _: Text("error-settings.required"),
    "bool_parsing": lambda _: Text("error-settings.unreadable-boolean"),
    "bool_type": lambda _: Text("error-settings.boolean"),
    "string_type": lambda _: Text("error-settings.string"),
    "int_type": lambda _: Text("error-settings.integer"),
    "int_parsing": lambda _: Text("error-settings.unreadable-integer"),
    "float_type": lambda _: Text("error-settings.number"),
    "float_parsing": lambda _: Text("error-settings.unreadable-number"),
    "greater_than": lambda given: Text("error-settings.greater-than", limit=given["gt"]),
    "greater_than_equal": lambda given: Text("error-settings.at-least", limit=given["ge"]),
    "less_than_equal": lambda given: Text("error-settings.at-most", limit=given["le"]),
    "literal_error": lambda given: Text("error-settings.one-of", expected=given["expected"]),
    "dict_type": lambda _: Text("error-settings.dictionary"),
    "tuple_type": lambda _: Text("error-settings.tuple"),
}
"""Our words for pydantic's errors about settings, by type; any other error keeps its own words."""


@cache
def _known() -> list[str]:
    from bot.settings.schema import Settings  # noqa: PLC0415  # see the module's docstring

    sections = Settings.model_json_schema().get("$defs", {}).values()
    return sorted({*Settings.model_fields, *(name for section in sections for name in section.get("properties", ()))})


def _read(path: Path | None, text: str, known: set[str]) -> dict[str, Any]:
    try:
        document: object = next(iter(parse_documents(text)), None)
    except WrongValue as error:
        raise UsageError(Text("error-settings.file-is-not-yaml", path=path, reason=error.text)) from None
    if document is not None and not isinstance(document, dict):
        raise UsageError(Text("error-settings.file-is-no-mapping", path=path))
    settings = cast("dict[Any, Any]", document or {})
    if unknown := [key for key in settings if key not in known]:
        lines = ", ".join(str(line_of(text, (str(key),)) or "?") for key in unknown)
        raise UsageError(
            Text("error-settings.unknown-in-file", path=path, lines=lines),
            hint=Text("error-settings.known", known=", ".join(sorted(known))),
        )
    return settings
