"""How objects lie in the store: their keys, and their bytes in and out of every version.

A value is the JSON of an object in the storage version of its kind, without `resourceVersion`, which is the revision
that the store gave it. Its first bytes are always those that `_head` makes, so that showing an object in any version of
the same shape means putting another head, and the version, in front of the rest:

    {"kind":"Pod","apiVersion":"v1","metadata":{                        "name":"web",…
    {"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7",  "name":"web",…

Only versions of another shape are decoded and converted, once each. Used by everything else in this package.
"""

from collections.abc import Iterable, Iterator

import msgspec

from mooring.api import codec, errors
from mooring.api.dynamic import Dynamic, normalize
from mooring.api.json_tree import Elements, TooLargeError, check_limits
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import KeyValue

ROOT = "/registry/"
_ITEM_HEAD = b'{"metadata":{'
_CONVERTED = 4096


def check_elements(value: bytes, kind: Kind) -> None:
    """Raise RequestEntityTooLarge for an object that many requests together have made too long to work on."""
    most = Elements(*(2 * each for each in codec.max_elements(kind.type)))  # defaults have added some
    if value.count(b"{") + value.count(b"[") <= most.objects and value.count(b",") <= most.values:
        return
    tree = msgspec.json.decode(value)
    tree.get("metadata", {}).pop("managedFields", None)
    try:
        check_limits(msgspec.json.encode(tree), most)
    except TooLargeError as error:
        raise errors.request_entity_too_large(str(error)) from None


class Stored:
    """The objects of one kind, whatever version they are asked for in."""

    asks = False
    """Whether somebody else has to be asked for objects in other versions, with `prepare`."""

    def __init__(self, scheme: Scheme, kind: Kind) -> None:
        self.hub = scheme.hub(kind)
        self.storage = scheme.storage(kind)
        self.prefix = f"{ROOT}{kind.group}/{kind.plural}/" if kind.custom else f"{ROOT}{self.hub.plural}/"
        self.current_after = kind.custom.revision if kind.custom else 0
        """Custom objects that were written later look as the schema of their kind wants them today."""
        self._scheme = scheme
        self._heads = _heads(self.storage, scheme.family(kind))
        self._converted: BoundedCache[tuple[bytes, Kind], bytes] = BoundedCache(_CONVERTED)

    def key(self, namespace: str, name: str) -> str:
        """The key of an object, as `/registry/pods/default/web`; raises BadRequest for a name that no key can hold."""
        if "\0" in name or "\0" in namespace:
            raise errors.bad_request("a name must not contain the character NUL")
        return f"{self.prefix}{namespace}/{name}" if self.hub.namespaced else self.prefix + name

    def prefix_of(self, namespace: str) -> str:
        """What the keys of a namespace begin with; of all namespaces when it is empty."""
        return f"{self.prefix}{namespace}/" if namespace and self.hub.namespaced else self.prefix

    async def prepare(self, values: Iterable[bytes], kind: Kind) -> None:
        """Do what takes waiting before stored objects can be read or shown in a version; here nothing does."""

    async def encoded(self, obj: Resource) -> bytes:
        """As `encode`, where that may take waiting."""
        return self.encode(obj)

    def encode(self, obj: Resource) -> bytes:
        """An object of the newest version as it is stored."""
        version, obj.metadata.resource_version = obj.metadata.resource_version, ""
        value = codec.encode(self._scheme.convert(obj, self.storage))
        obj.metadata.resource_version = version
        check_elements(value, self.hub)
        return value

    def decode(self, value: bytes, revision: int) -> Resource:
        """A stored object in the newest version; nobody else has it, so that it may be changed."""
        source = self._source(value)
        obj = codec.decode_own(value, source.type)
        if isinstance(obj, Dynamic) and (source is self.hub and revision <= self.current_after):
            normalize(obj)
        obj = self._scheme.convert(obj, self.hub)
        obj.metadata.resource_version = str(revision)
        return obj

    def render(self, value: bytes, revision: int, kind: Kind) -> bytes:
        """The JSON of a stored object in a version. Without a revision (dry run) it has no resourceVersion."""
        source = self._source(value)
        if not source.has_shape_of(kind) or (revision <= self.current_after and revision):
            value, source = self._convert(value, kind), kind
        rest = value[len(self._heads[source]) :]
        if not revision:
            return self._heads[kind] + rest
        return b'%b"resourceVersion":"%d",%b' % (self._heads[kind], revision, rest)

    def render_item(self, value: bytes, revision: int, kind: Kind) -> bytes:
        """As `render`, for a list, whose items do not repeat the kind, except for those of custom kinds."""
        source = self._source(value)
        if not source.has_shape_of(kind) or revision <= self.current_after:
            value, source = self._convert(value, kind), kind
        head = self._heads[kind] if kind.custom else _ITEM_HEAD
        return b'%b"resourceVersion":"%d",%b' % (head, revision, value[len(self._heads[source]) :])

    def plain_head(self, kind: Kind) -> bytes | None:
        """What the values begin with whose rest is shown in a version as it is; None when there are none."""
        return self._heads[self.storage] if self.storage.has_shape_of(kind) and not kind.custom else None

    def render_items(self, items: Iterable[KeyValue], kind: Kind) -> Iterator[bytes | memoryview]:
        """As `render_item`, for many, with commas between them, in pieces that only one join should ever copy."""
        head = self.plain_head(kind)
        length = len(head or b"")
        comma = b""
        for kv in items:
            value = kv.value
            if head and value.startswith(head):
                yield b'%b{"metadata":{"resourceVersion":"%d",' % (comma, kv.mod_revision)
                yield memoryview(value)[length:]
            else:
                yield comma + self.render_item(value, kv.mod_revision, kind)
            comma = b","

    def _source(self, value: bytes) -> Kind:
        """The version that a value was written in: nearly always today's storage version."""
        for kind, head in self._heads.items():
            if value.startswith(head):
                return kind
        raise errors.internal_error(f"a stored object of kind {self.hub.kind} is in no version that this server knows")

    def _convert(self, value: bytes, kind: Kind) -> bytes:
        """The bytes as if they had been stored in another version."""
        found = self._converted.get((value, kind))
        if found is None:
            obj = codec.decode_own(value, self._source(value).type)
            if isinstance(obj, Dynamic):
                normalize(obj)
            found = codec.encode(self._scheme.convert(obj, kind))
            self._converted.put((value, kind), found)
        return found


def _heads(first: Kind, family: Iterable[Kind]) -> dict[Kind, bytes]:
    kinds = dict.fromkeys((first, *family))
    return {kind: f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}","metadata":{{'.encode() for kind in kinds}
