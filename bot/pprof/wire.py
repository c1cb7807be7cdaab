"""The messages of profile.proto, declared when first used instead of generated.

Field numbers and types are those of proto/profile.proto of github.com/google/pprof (Apache-2.0). Texts are declared as
bytes: Go writes names that need not be UTF-8, and a `string` field would refuse the whole profile for one of them.
"""

from typing import Any

from google.protobuf.message import DecodeError, Message

__all__ = ["DecodeError", "parse"]

# FieldDescriptorProto.Type and .Label
_INT64, _UINT64, _BOOL, _MESSAGE, _BYTES = 3, 4, 8, 11, 12
_OPTIONAL, _REPEATED = 1, 3

_MESSAGES: dict[str, tuple[tuple[str, int, int | str, int], ...]] = {
    "ValueType": (("type", 1, _INT64, _OPTIONAL), ("unit", 2, _INT64, _OPTIONAL)),
    "Label": (
        ("key", 1, _INT64, _OPTIONAL),
        ("str", 2, _INT64, _OPTIONAL),
        ("num", 3, _INT64, _OPTIONAL),
        ("num_unit", 4, _INT64, _OPTIONAL),
    ),
    "Sample": (
        ("location_id", 1, _UINT64, _REPEATED),
        ("value", 2, _INT64, _REPEATED),
        ("label", 3, "Label", _REPEATED),
    ),
    "Mapping": (
        ("id", 1, _UINT64, _OPTIONAL),
        ("memory_start", 2, _UINT64, _OPTIONAL),
        ("memory_limit", 3, _UINT64, _OPTIONAL),
        ("file_offset", 4, _UINT64, _OPTIONAL),
        ("filename", 5, _INT64, _OPTIONAL),
        ("build_id", 6, _INT64, _OPTIONAL),
    ),
    "Line": (
        ("function_id", 1, _UINT64, _OPTIONAL),
        ("line", 2, _INT64, _OPTIONAL),
        ("column", 3, _INT64, _OPTIONAL),
    ),
    "Location": (
        ("id", 1, _UINT64, _OPTIONAL),
        ("mapping_id", 2, _UINT64, _OPTIONAL),
        ("address", 3, _UINT64, _OPTIONAL),
        ("line", 4, "Line", _REPEATED),
        ("is_folded", 5, _BOOL, _OPTIONAL),
    ),
    "Function": (
        ("id", 1, _UINT64, _OPTIONAL),
        ("name", 2, _INT64, _OPTIONAL),
        ("system_name", 3, _INT64, _OPTIONAL),
        ("filename", 4, _INT64, _OPTIONAL),
        ("start_line", 5, _INT64, _OPTIONAL),
    ),
    "Profile": (
        ("sample_type", 1, "ValueType", _REPEATED),
        ("sample", 2, "Sample", _REPEATED),
        ("mapping", 3, "Mapping", _REPEATED),
        ("location", 4, "Location", _REPEATED),
        ("function", 5, "Function", _REPEATED),
        ("string_table", 6, _BYTES, _REPEATED),
        ("drop_frames", 7, _INT64, _OPTIONAL),
        ("keep_frames", 8, _INT64, _OPTIONAL),
        ("time_nanos", 9, _INT64, _OPTIONAL),
        ("duration_nanos", 10, _INT64, _OPTIONAL),
        ("period_type", 11, "ValueType", _OPTIONAL),
        ("period", 12, _INT64, _OPTIONAL),
        ("comment", 13, _INT64, _REPEATED),
        ("default_sample_type", 14, _INT64, _OPTIONAL),
        ("doc_url", 15, _INT64, _OPTIONAL),
    ),
}


def parse(data: bytes) -> Any:
    """The Profile message of uncompressed bytes; packed or not, in any order. Raises DecodeError."""
    return _profile_class().FromString(data)


def _profile_class() -> Any:  # messages of a run-time declaration have no static type
    """The class that protobuf's own factory makes.

    That factory imports the implementation in Python as well, which nobody uses beside the one in C: half of the time
    that a small table takes. So the C core is asked itself; where it is not there, or elsewhere, the factory is.
    """
    try:
        from google._upb import _message  # noqa: PLC0415
    except ImportError:
        return _made_by_the_factory()
    core: Any = _message
    descriptor = _described(core.DescriptorPool())
    return core.MessageMeta("Profile", (Message,), {"DESCRIPTOR": descriptor, "__module__": __name__})


def _made_by_the_factory() -> Any:
    from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415

    return message_factory.GetMessageClass(_described(descriptor_pool.DescriptorPool()))


def _described(pool: Any) -> Any:
    pool.AddSerializedFile(_file())
    return pool.FindMessageTypeByName("perftools.profiles.Profile")


def _file() -> bytes:
    """A FileDescriptorProto, written by hand: importing its own message takes longer than reading a small profile."""
    messages = b"".join(
        _text(4, _text(1, name.encode()) + b"".join(_text(2, _field(*field)) for field in fields))
        for name, fields in _MESSAGES.items()
    )
    return _text(1, b"profile.proto") + _text(2, b"perftools.profiles") + messages + _text(12, b"proto3")


def _field(name: str, number: int, kind: int | str, label: int) -> bytes:
    typed = bytes([5 << 3, _MESSAGE if isinstance(kind, str) else kind])
    message = _text(6, f".perftools.profiles.{kind}".encode()) if isinstance(kind, str) else b""
    return _text(1, name.encode()) + bytes([3 << 3, number, 4 << 3, label]) + typed + message


def _text(number: int, text: bytes) -> bytes:
    length, size = len(text), b""
    while length >= 128:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + text
