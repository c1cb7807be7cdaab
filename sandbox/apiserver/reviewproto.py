"""Access reviews in protobuf, which is how kubectl sends them; it reads the answer in JSON. Field numbers:
k8s.io/apimachinery pkg/runtime/generated.proto and k8s.io/api authorization/v1/generated.proto.
"""

from collections.abc import Iterator

from sandbox.apiserver.entries import Object
from sandbox.apiserver.statuses import bad_request

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_RAW, _SPEC, _BYTES = 2, 2, 2
_RESOURCE = {1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name"}
_KINDS = {"selfsubjectaccessreviews": "SelfSubjectAccessReview", "selfsubjectrulesreviews": "SelfSubjectRulesReview"}


def read_review(plural: str, body: bytes) -> Object:
    """An access review in protobuf as it would be in JSON. Raises the server's 400 for bytes that are none."""
    if not body.startswith(_MAGIC) or plural not in _KINDS:
        raise bad_request("couldn't get version/kind; the body is no protobuf of an access review")
    head = {"kind": _KINDS[plural], "apiVersion": "authorization.k8s.io/v1"}
    try:
        spec = _inside(_inside(body[len(_MAGIC) :], _RAW), _SPEC)
        if plural == "selfsubjectrulesreviews":
            return head | {"spec": {"namespace": _inside(spec, 1).decode()}}
        asked = {_RESOURCE[number]: text.decode() for number, text in _fields(_inside(spec, 1)) if number in _RESOURCE}
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; the protobuf is cut off: {error}") from error
    asked = {name: text for name, text in asked.items() if text}
    return head | {"spec": {"resourceAttributes": asked} if asked else {}}


def _inside(message: bytes, wanted: int) -> bytes:
    return next((content for number, content in _fields(message) if number == wanted), b"")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; reviews have no others but numbers, which are skipped."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        value, place = _varint(message, place)
        if tag & 7 == _BYTES:
            yield tag >> 3, message[place : place + value]
            place += value


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
