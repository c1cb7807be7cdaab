"""Pods from manifests: YAML or JSON, one or several documents, Lists included."""

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import click
import msgspec
import yaml

from bot.errors import UsageError
from bot.kube.models import Pod

_MAX_BYTES = 16 * 1024 * 1024
_MAX_PODS = 5000
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def _loader() -> Any:
    """A safe loader that leaves times as the text they are in the API; the fast one where libyaml is."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [one for one in known if one[0] != _TIMESTAMP] for first, known in base.yaml_implicit_resolvers.items()
    }
    return type("ManifestLoader", (base,), {"yaml_implicit_resolvers": resolvers})


class Manifest(NamedTuple):
    """A file as given, with its text."""

    path: str
    text: str


class ManifestFile(click.ParamType[Manifest]):
    """A manifest's path, `-` for standard input; its value is the `Manifest`."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Manifest:
        try:
            with click.open_file(value, "rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)
        if len(data) > _MAX_BYTES:
            self.fail(f"{value}: larger than {_MAX_BYTES // 1024 // 1024} MiB", param, ctx)
        return Manifest(str(value), data.decode("utf-8", "replace"))


def read_pods(manifests: Iterable[Manifest]) -> list[Pod]:
    """Every pod of the manifests, in order. Raises UsageError for text that is no manifest, or holds another kind."""
    pods = [pod for manifest in manifests for document in _documents(manifest) for pod in _pods(manifest, document)]
    if not pods:
        raise UsageError("the manifest holds no pod", hint="Give a Pod or a List of Pods, as YAML or JSON.")
    if len(pods) > _MAX_PODS:
        raise UsageError(f"{len(pods)} pods are more than {_MAX_PODS}", hint="Split the manifest.")
    return pods


def _documents(manifest: Manifest) -> list[object]:
    text = manifest.text.lstrip("\ufeff")
    try:
        if text.lstrip()[:1] in ("{", "["):
            try:
                return [msgspec.json.decode(text)]
            except msgspec.DecodeError:
                pass  # flow-style YAML begins with a brace too
        return [one for one in yaml.load_all(text, Loader=_loader()) if one is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{manifest.path} is neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from error


def _pods(manifest: Manifest, document: object) -> list[Pod]:
    if isinstance(document, list):
        return [pod for one in cast("list[object]", document) for pod in _pods(manifest, one)]
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    kind, items = fields.get("kind"), fields.get("items")
    if kind in ("List", "PodList") and isinstance(items, list):
        listed = cast("list[object]", items)
        return [_pod(manifest, one) for one in listed] if kind == "PodList" else _pods(manifest, listed)
    if kind == "Pod":
        return [_pod(manifest, fields)]
    what = f"kind {kind}" if isinstance(kind, str) else "something without a kind"
    raise UsageError(
        f"{manifest.path} holds {what[:80]}, not a Pod",
        hint="Give the pod itself: for a Deployment or Job, its template with kind: Pod.",
    )


def _pod(manifest: Manifest, document: object) -> Pod:
    try:
        return msgspec.convert(document, Pod, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{manifest.path}: not a pod as the API has it: {error}") from error
