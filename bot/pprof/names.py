"""Function names as people read them (internal/symbolizer/symbolizer.go): what looks like C++ loses its parameters.

It hits Go's generics too: `slices.SortFunc[main.T,func(int, int) bool]` is printed `slices.SortFunc[main.T,func bool]`.
Mangled C++ names (`_Z…`) stay mangled: no Go program has them, but through cgo.
"""

from collections.abc import Iterable

from bot.pprof.profile import Function


def simplify(functions: Iterable[Function]) -> None:
    """Give every function whose name is the binary's own the name that pprof shows."""
    shown: dict[str, str] = {}  # many functions may share one long name: it stays one text
    for function in functions:
        name = function.system_name
        if not function.name or function.name == name:
            if name not in shown:
                shown[name] = simplified(name)
            function.name = shown[name]


def simplified(name: str) -> str:
    """The name without parameters and template parameters, where it looks like C++; else as it is."""
    if ".<" in name or "])." in name:  # Java's constructors; methods of Go's generic types
        return name
    if "::" in name or any(sign in name for sign in "<>[]"):
        return _without(_without(name, "(", ")"), "<", ">")
    return name


def _without(name: str, opening: str, closing: str) -> str:
    """The name without what stands in balanced brackets. From a closing one too many on it is left as it is."""
    kept: list[str] = []
    depth = start = 0
    for position, sign in enumerate(name):
        if sign == opening:
            if not depth:
                kept.append(name[start:position])
                start = position
            depth += 1
        elif sign == closing:
            depth -= 1
            if depth < 0:
                break
            if not depth:
                start = position + 1
    return "".join(kept) + name[start:]
