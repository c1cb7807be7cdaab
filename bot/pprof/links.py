"""Where the source of a function is on the web: the file of the module and version that the profile itself names.

Go writes the version into the path of every module that a program takes from elsewhere
(`/go/pkg/mod/k8s.io/klog/v2@v2.130.1/klog.go`), but neither its own nor that of the program: those must be told. A
link to the wrong line is worse than none, so there is none where a version is missing.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from bot.errors import UsageError
from bot.pprof.profile import Function, Profile
from bot.texts import Text

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


class _Repository(NamedTuple):
    url: str
    folder: str
    """Of the module in its repository: its tags begin with it."""


class Sources:
    """The links of one profile. `versions` are those that it cannot tell: of `go` and of the program's module."""

    def __init__(self, profile: Profile, versions: Mapping[str, str]) -> None:
        self._go = _go_version(profile, versions.get(GO, ""))
        self._modules = {module: version for module, version in versions.items() if module != GO}
        self._roots = {module: root for module in self._modules if (root := _root(profile, module))}

    def link(self, function: str, file: str, line: int) -> str:
        """The address of the line; empty where the version or the repository is not known."""
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
    """`github.com/Project-HAMi/HAMi@v2.9.0,go@1.25.3`. Raises UsageError."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        module, at, version = part.partition("@")
        if not (module and at and re.fullmatch(r"[\w.+-]+", version, re.ASCII)):
            example = f"-versions={HAMI}@v2.9.0,go@1.25.3"
            raise UsageError(Text("error-pprof.not-module-with-version", part=repr(part)), example=example)
        found[module] = version
    return found


def _go_version(profile: Profile, version: str) -> str:
    if version:
        return f"go{version.removeprefix(GO)}"
    found = (_TOOLCHAIN.fullmatch(function.filename) for function in profile.functions)
    return next((match["version"] for match in found if match), "")


def _go_link(version: str, file: str, line: int) -> str:
    return f"https://github.com/golang/go/blob/{version}/src/{quote(file)}#L{line}"


def _module_link(module: str, version: str, file: str, line: int) -> str:
    repository = _repository(module)
    if repository is None:
        return ""
    pseudo = _PSEUDO_VERSION.fullmatch(version)
    tag = f"{repository.folder}/{version}".lstrip("/").removesuffix("+incompatible")
    path = posixpath.join(repository.folder, file)
    return f"{repository.url}/blob/{pseudo[1] if pseudo else quote(tag)}/{quote(path)}#L{line}"


def _repository(module: str) -> _Repository | None:
    for pattern, address in _HOSTS:
        if found := pattern.match(module):
            rest = _MAJOR.sub("", module[found.end() :])
            return _Repository(f"https://{address.format(*found.groups())}", rest.strip("/"))
    return None


def _root(profile: Profile, module: str) -> str:
    """The folder in which the module was built: what stands before the package's path in the file's."""
    for function in profile.functions:
        folder, inside = posixpath.dirname(function.filename), _inside(function, module)
        if inside and folder.endswith(f"/{inside}"):
            return folder.removesuffix(inside)
    return ""


def _inside(function: Function, module: str) -> str:
    package = _package(function.name)
    return package.removeprefix(f"{module}/") if package.startswith(f"{module}/") else ""


def _package(function: str) -> str:
    """`github.com/a/b/c` of `github.com/a/b/c.(*T).method`; dots of its last element are written %2e."""
    path, slash, last = re.split(r"[\[(]", function, maxsplit=1)[0].rpartition("/")
    return f"{path}{slash}{last.partition('.')[0]}".replace("%2e", ".")


def _unescaped(path: str) -> str:
    """The module cache writes `!h` for `H`."""
    return re.sub(r"!([a-z])", lambda found: found[1].upper(), path)
