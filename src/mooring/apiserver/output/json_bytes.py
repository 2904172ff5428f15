"""The layout of JSON as this server writes it: the only module of the API server with pieces of JSON as bytes.

The server sends stored objects without decoding them, which takes ten times as long as everything else that a list
needs. A stored value is the JSON of an object without `resourceVersion`; its first bytes are those of `head`, so that
an object is shown by putting a head and its revision before the rest:

    {"kind":"Pod","apiVersion":"v1","metadata":{                        "name":"web",…
    {"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7",  "name":"web",…

`managedFields` are always the last field of the metadata. Called by ``registry/`` and ``output/tables/``.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec import Raw, Struct, json

Pieces = Iterator[bytes | memoryview]
"""The pieces of a JSON document as bytes, to be joined once, when it is sent."""

_REVISION = b'"resourceVersion":"%d",'
_METADATA, _UID = b'"metadata":{', b'"uid":"'
_MANAGED_FIELDS, _AFTER_MANAGED_FIELDS, _LAST_MANAGED_FIELDS = b',"managedFields":[', b'}]},"', b"}]}}"
_AFTER_STRINGS = b",:}]"
_NEW_OPERATORS = re.compile(rb'"operator":"(?:Lt"|Gt"|Semver)|"expression":"|"matchCELExpressions":\[')


# -- objects


def make_head(kind: str, api_version: str) -> bytes:
    """Return an object's JSON up to the first field of its metadata: `{"kind":…,"apiVersion":…,"metadata":{`."""
    return f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{'.encode()


ITEM_HEAD = b'{"metadata":{'
"""The JSON of a list item up to the first field of its metadata; it does not repeat the kind."""


def add_revision(head: bytes, revision: int, rest: bytes) -> bytes:
    """Return an object's JSON: its `head`, the resourceVersion, and the stored bytes after the head."""
    return b'%b"resourceVersion":"%d",%b' % (head, revision, rest)


def count_revision_bytes(revision: int) -> int:
    """Return how many bytes a resourceVersion takes in an object's JSON."""
    return len(_REVISION % revision)


def find_metadata_begin(value: bytes) -> int:
    """Return the index of the first metadata field in an object's JSON."""
    return value.index(b"{", 1) + 1


class _Metadata(Struct):
    metadata: Raw


_METADATA_ALONE = json.Decoder(_Metadata)


def extract_metadata(value: bytes) -> bytes:
    """Return the metadata part of an object's JSON, as a JSON object."""
    return bytes(_METADATA_ALONE.decode(value).metadata)


def find_managed_fields_begin(value: bytes) -> int:
    """Return the index of the first `managedFields` in an object's JSON (maybe a template's); -1 if absent."""
    return value.find(_MANAGED_FIELDS)


def metadata_without_managed(value: bytes) -> bytes:
    """Return the metadata in an object's JSON without managedFields, which must be the last metadata field."""
    return value[value.index(b"{", 1) : value.find(_MANAGED_FIELDS)] + b"}"


def without_managed_fields(text: bytes) -> tuple[bytes, int]:
    """Return an object without its managed fields, and the offset at which its metadata ends in the given text.

    If the object has none, or a template in it may have some, return the text unchanged and -1.

        >>> without_managed_fields(b'{"metadata":{"name":"a","managedFields":[{"manager":"m"}]},"spec":{}}')
        (b'{"metadata":{"name":"a"},"spec":{}}', 58)
    """
    begin = text.find(_MANAGED_FIELDS)
    if begin < 0 or text.find(_METADATA, text.index(b"{", 1), begin) >= 0:
        return text, -1
    end = text.find(b"]", begin) - 1  # one byte is found ten times as fast as several
    while not text.startswith(_AFTER_MANAGED_FIELDS, end) or text[end + 5] in _AFTER_STRINGS:  # it is inside a string
        end = text.find(_AFTER_MANAGED_FIELDS, end + 1)
        if end < 0:
            if not text.endswith(_LAST_MANAGED_FIELDS):
                return text, -1
            end = len(text) - len(_LAST_MANAGED_FIELDS)
            break
    return text[:begin] + text[end + 2 :], end + 3


def cut_to_identity(text: bytes) -> bytes:
    """Return an object's JSON cut off after version, name, namespace and uid, with the braces closed.

    >>> cut_to_identity(b'{"kind":"Pod","metadata":{"resourceVersion":"7","name":"a","uid":"1","labels":{}},"spec":{}}')
    b'{"kind":"Pod","metadata":{"resourceVersion":"7","name":"a","uid":"1"}}'
    """
    begin = text.find(_METADATA) + len(_METADATA)
    at = text.find(_UID, begin)
    if at < 0 or text.find(b"{", begin, at) >= 0:
        return text  # it has no uid
    return text[: text.find(b'"', at + len(_UID)) + 1] + b"}}"


def make_partial_metadata(head: bytes, metadata: bytes) -> bytes:
    """Return a PartialObjectMetadata as JSON from its head and metadata (with braces)."""
    return head[:-1] + metadata + b"}"


def encode_string_field(name: str, value: str) -> bytes:
    """Return a field with a string value as JSON, as it occurs in objects: `"name":"value"`."""
    return json.encode(name) + b":" + json.encode(value)


def has_string(value: bytes, name: str) -> bool:
    """Return whether an object contains, at any depth, a field of this name with a string value."""
    return b'"%b":"' % name.encode() in value


def has_text(value: bytes, text: str) -> bool:
    """Return whether an object contains, at any depth, a string that equals `text`."""
    return json.encode(text) in value


def has_new_operators(value: bytes) -> bool:
    """Return whether an object may use operators only Mooring knows; False is certain, True only possible."""
    return _NEW_OPERATORS.search(value) is not None


def count_elements(value: bytes) -> tuple[int, int]:
    """Return upper bounds of a JSON document's number of containers and of values, without decoding it."""
    return value.count(b"{") + value.count(b"["), value.count(b",")


# -- lists


def join_list(kind: str, api_version: str, metadata: bytes, items: Iterable[bytes | memoryview]) -> Pieces:
    """Yield a list's JSON in pieces; `items` yields its objects with the commas between them."""
    yield b'%b%b,"items":[' % (make_head(kind, api_version)[:-1], metadata)
    yield from items
    yield b"]}"


def add_commas(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield array elements with commas between them."""
    comma = b""
    for item in items:
        yield comma + item
        comma = b","


PLAIN_ITEM = b'%b{"metadata":{"resourceVersion":"%d",'
"""The begin of a list item, for a comma and the resourceVersion; the stored metadata follows, uncopied."""


# -- tables


def join_table(head: bytes, metadata: bytes, columns: bytes, rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a Table's JSON in pieces; `rows` yields its rows with the commas between them."""
    yield b'%b%b,"columnDefinitions":%b,"rows":[' % (head[:-1], metadata, columns)
    yield from rows
    yield b"]}"


def make_row(cells: bytes, conditions: bytes) -> bytes:
    """Return a Table row's JSON without its `object` and without the closing brace, for caching."""
    return b'{"cells":%b,"conditions":%b' % (cells, conditions) if conditions else b'{"cells":' + cells


def add_object_to_row(row: bytes, obj: bytes) -> bytes:
    """Return a Table row's complete JSON, with the object that it shows unless `obj` is empty."""
    return b'%b,"object":%b}' % (row, obj) if obj else row + b"}"


def make_row_format(head: bytes) -> bytes:
    """Return a `%` format for a Table row and its object's metadata: comma, row, resourceVersion, other metadata.

    `head` is the JSON of the object up to its metadata.
    """
    return b'%%b%%b,"object":%b"resourceVersion":"%%d",%%b}}' % head


# -- watches


def make_watch_event(kind: str, obj: bytes) -> bytes:
    """Return a watch event of a type (ADDED…) with an object's JSON, as one line."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
