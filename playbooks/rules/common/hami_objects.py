"""Evidence about HAMi's own objects."""

from bot.kube.models import ObjectMeta, Resource
from bot.report import Evidence
from playbooks.quotes import kubectl, shown


def of_object(kind: str, resource: Resource, quote: str, path: str) -> Evidence:
    """A value of an object of HAMi's; `path` is the JSONPath that shows it. An empty one is shown by the name."""
    if not quote.strip():
        quote, path = resource.name, "{.metadata.name}"
    return Evidence(
        source=kind.lower(),
        object=f"{kind} {_full_name(resource.metadata)}",
        at=None,
        quote=shown(quote),
        command=kubectl(*_where(resource.metadata), "get", kind.lower(), resource.name, "-o", f"jsonpath={path}"),
    )


def _full_name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _where(metadata: ObjectMeta) -> tuple[str, ...]:
    return ("-n", metadata.namespace) if metadata.namespace else ()
