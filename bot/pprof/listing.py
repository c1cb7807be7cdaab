"""The weight of a function's lines, as `list` of go tool pprof shows it, with or without the source.

Without the source each line has a link to it on the web. Go writes a module's version into its path
(`/go/pkg/mod/k8s.io/klog/v2@v2.130.1/klog.go`), but not Go's own or the program's: the user must name these. A wrong
link is worse than none, so there is none where a version is missing.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from bot.errors import UsageError
from bot.pprof.filters import matcher
from bot.pprof.graph import check_text
from bot.pprof.nodes import GraphNode, base_name, node_table
from bot.pprof.profile import Profile, int64, magnitude
from bot.pprof.sums import sums_of
from bot.pprof.units import AUTO, label, percentage
from bot.texts import Text

_SUGGESTED = 3
_MARGIN = 5
"""How many lines a listing shows before and after those with weight (internal/report/source.go)."""

Source = Callable[[str], list[str]]
"""Gives the lines of a file; raises OSError, whose text is printed, where it cannot be read."""
Link = Callable[[str, str, int], str]
"""Gives the web address of a line, by function, file and line; empty where it is not known."""


class LineWeight(NamedTuple):
    """The weight of one line of a function."""

    line: int
    flat: int
    cum: int


class FunctionLines(NamedTuple):
    """The weights of a function's lines in one file, in order. The lines' `cum` are added up, though calls may nest."""

    name: str
    file: str
    start_line: int
    lines: list[LineWeight]

    @property
    def flat(self) -> int:
        return int64(sum(line.flat for line in self.lines))

    @property
    def cum(self) -> int:
        return int64(sum(line.cum for line in self.lines))


def function_lines(profile: Profile, index: int, function: str) -> list[FunctionLines]:
    """Line weights of the functions whose name the regular expression finds, by name and file; none without a file. The
    profile is as `top.prepared` gives it. Raises UsageError when the expression is invalid or finds nothing.
    """
    wanted = matcher(function, "list")
    table = node_table(profile, lines=True, inlines=True, objects=True)
    flat, cum = sums_of(profile, index, table).weigh()
    found: dict[tuple[bytes, bytes], list[tuple[GraphNode, int, int]]] = {}
    for node, own, with_callees in zip(table.nodes, flat, cum, strict=True):
        if (own or with_callees) and wanted(node.name):
            key = node.name.encode("utf-8", "surrogateescape"), node.file.encode("utf-8", "surrogateescape")
            found.setdefault(key, []).append((node, own, with_callees))
    if not found:
        by_weight = sorted(zip(cum, table.nodes, strict=True), key=lambda pair: -magnitude(pair[0]))
        names = ", ".join([*dict.fromkeys(node.name for _, node in by_weight if node.name)][:_SUGGESTED])
        hint = (
            Text("error-pprof.heaviest-are", names=names) if names else Text("error-pprof.profile-names-no-functions")
        )
        raise UsageError(Text("error-pprof.no-matches-found-for-regexp", regexp=function), hint=hint)
    return [_function(found[key]) for key in sorted(found)]


def _function(nodes: list[tuple[GraphNode, int, int]]) -> FunctionLines:
    by_line: dict[int, tuple[int, int]] = {}
    for node, flat, cum in nodes:
        before = by_line.get(node.line, (0, 0))
        by_line[node.line] = int64(before[0] + flat), int64(before[1] + cum)
    first = nodes[0][0]
    start = min(node.start_line for node, _, _ in nodes)
    return FunctionLines(
        first.name, first.file, start, [LineWeight(number, *by_line[number]) for number in sorted(by_line)]
    )


def listing(functions: Sequence[FunctionLines], total: int, unit: str, *, source: Source | None, link: Link) -> str:
    """The listing as text: with `source` that of `go tool pprof -list`; else lines with their weight and a link."""

    def value(number: int) -> str:
        return label(number, unit, AUTO)

    if source is None:  # each line with its link, which has the name's package and the path
        check_text((len(function.name) + len(function.file)) * len(function.lines) for function in functions)
    lines = [f"Total: {value(total)}"]
    in_files = {function.name for function in functions if function.file}
    for function in functions:
        if not function.file:
            lines += [] if function.name in in_files else [f"No source information for {function.name}"]
            continue
        lines.append(f"ROUTINE ======================== {function.name} in {function.file}")
        share = percentage(function.cum, total)
        lines.append(f"{value(function.flat):>10} {value(function.cum):>10} (flat, cum) {share} of Total")
        if source is None:
            weights = [(each, link(function.name, function.file, each.line)) for each in function.lines]
        else:
            try:
                code = source(function.file)
            except OSError as error:
                lines.append(f" Error: {error}")
                continue
            by_line = {each.line: each for each in function.lines}
            starts = [function.start_line] if function.start_line else [number - _MARGIN for number in by_line]
            shown = range(max(1, *starts), min(max(by_line) + _MARGIN, len(code)) + 1)
            weights = [(by_line.get(number, LineWeight(number, 0, 0)), code[number - 1]) for number in shown]
        for each, text in weights:
            flat, cum = (value(number) if number else "." for number in (each.flat, each.cum))
            lines.append(f"{flat:>10} {cum:>10} {each.line:>6}:{text}")
    return "\n".join(lines) + "\n"


def below(path: str, folders: str) -> str:
    """The rest of a file's path below one of the `folders` (divided by `:`); the whole path where it is in none.
    `/build/hami/pkg/a.go` is `pkg/a.go` for `/home/me/hami` (trimPath of internal/report/source.go).
    """
    for folder in folders.split(":"):
        _, found, rest = path.partition(f"/{base_name(folder)}/")
        if found:
            return rest
    return path


HAMI = "github.com/Project-HAMi/HAMi"
GO = "go"
_MODULE = re.compile(r"(?:.*/pkg/mod/)?(?P<module>[^@/][^@]*)@(?P<version>v[^/@]+)/(?P<file>.+)")
_TOOLCHAIN = re.compile(r".*golang\.org/toolchain@v0\.0\.1-(?P<version>go[\d.]+\w*)\.[^/]+/src/(?P<file>.+)")
_GOROOT = re.compile(r"(?:^|.*/)(?:usr/local/go|libexec|goroot|go)/src/(?P<file>.+)")
_PSEUDO_VERSION = re.compile(r"v\d+\.\d+\.\d+-(?:[\w.]+\.)?\d{14}-([0-9a-f]{12})")
_MAJOR = re.compile(r"/v\d+$")
# Import paths that are no address of a repository (what their go-import meta tags answer).
_HOSTS = (
    (re.compile(r"k8s\.io/([^/]+)"), "github.com/kubernetes/{0}"),
    (re.compile(r"sigs\.k8s\.io/([^/]+)"), "github.com/kubernetes-sigs/{0}"),
    (re.compile(r"golang\.org/x/([^/]+)"), "github.com/golang/{0}"),
    (re.compile(r"google\.golang\.org/grpc"), "github.com/grpc/grpc-go"),
    (re.compile(r"google\.golang\.org/protobuf"), "github.com/protocolbuffers/protobuf-go"),
    (re.compile(r"go\.uber\.org/([^/]+)"), "github.com/uber-go/{0}"),
    (re.compile(r"gopkg\.in/([^/.]+)\.v\d+"), "github.com/go-{0}/{0}"),
    (re.compile(r"gomodules\.xyz/([^/]+)"), "github.com/gomodules/{0}"),
    (re.compile(r"github\.com/([^/]+/[^/]+)"), "github.com/{0}"),
)


class SourceLinks:
    """Links to the source of a profile's lines. `versions`: of `go` and the program's module, which paths lack."""

    def __init__(self, profile: Profile, versions: Mapping[str, str]) -> None:
        toolchains = (_TOOLCHAIN.fullmatch(function.filename) for function in profile.functions)
        told = versions.get(GO)
        self._go = f"go{told.removeprefix(GO)}" if told else next((it["version"] for it in toolchains if it), "")
        self._modules = {module: version for module, version in versions.items() if module != GO}
        self._roots = {module: root for module in self._modules if (root := _root(profile, module))}

    def link(self, function: str, file: str, line: int) -> str:
        """The web address of the line; empty where the version or the repository is not known."""
        if found := _TOOLCHAIN.fullmatch(file):
            return _go_link(found["version"], found["file"], line)
        if (found := _MODULE.fullmatch(file)) and not file.startswith("golang.org/toolchain@"):
            return _module_link(_unescaped(found["module"]), _unescaped(found["version"]), found["file"], line)
        for module, version in self._modules.items():
            if path := self._in_module(module, function, file):
                return _module_link(module, version, path, line)
        if self._go and (found := _GOROOT.fullmatch(file)):
            return _go_link(self._go, found["file"], line)
        return ""

    def _in_module(self, module: str, function: str, file: str) -> str:
        """The file's path in the module's folder, from the function's package or from where its others lie."""
        package = _package(function)
        if package == module or package.startswith(f"{module}/"):
            return posixpath.join(package.removeprefix(module).lstrip("/"), posixpath.basename(file))
        root = self._roots.get(module, "")
        return file.removeprefix(root) if package == "main" and root and file.startswith(root) else ""


def read_versions(text: str) -> dict[str, str]:
    """The versions in `github.com/Project-HAMi/HAMi@v2.9.0,go@1.25.3`, by module. Raises UsageError for other text."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        module, at, version = part.partition("@")
        if not (module and at and re.fullmatch(r"[\w.+-]+", version, re.ASCII)):
            example = f"-versions={HAMI}@v2.9.0,go@1.25.3"
            raise UsageError(Text("error-pprof.not-module-with-version", part=repr(part)), example=example)
        found[module] = version
    return found


def _go_link(version: str, file: str, line: int) -> str:
    return f"https://github.com/golang/go/blob/{version}/src/{quote(file)}#L{line}"


def _module_link(module: str, version: str, file: str, line: int) -> str:
    for pattern, address in _HOSTS:
        if found := pattern.match(module):
            # The module's folder in its repository: its tags begin with it.
            folder = _MAJOR.sub("", module[found.end() :]).strip("/")
            pseudo = _PSEUDO_VERSION.fullmatch(version)
            tag = f"{folder}/{version}".lstrip("/").removesuffix("+incompatible")
            place = f"{pseudo[1] if pseudo else quote(tag)}/{quote(posixpath.join(folder, file))}"
            return f"https://{address.format(*found.groups())}/blob/{place}#L{line}"
    return ""


def _root(profile: Profile, module: str) -> str:
    """The folder in which the module was built: what stands before the package's path in the file's."""
    for function in profile.functions:
        folder, package = posixpath.dirname(function.filename), _package(function.name)
        inside = package.removeprefix(f"{module}/")
        if inside != package and folder.endswith(f"/{inside}"):
            return folder.removesuffix(inside)
    return ""


def _package(function: str) -> str:
    """`github.com/a/b/c` of `github.com/a/b/c.(*T).method`; dots of its last element are written %2e."""
    path, slash, last = re.split(r"[\[(]", function, maxsplit=1)[0].rpartition("/")
    return f"{path}{slash}{last.partition('.')[0]}".replace("%2e", ".")


def _unescaped(path: str) -> str:
    """The module cache writes `!h` for `H`."""
    return re.sub(r"!([a-z])", lambda found: found[1].upper(), path)
