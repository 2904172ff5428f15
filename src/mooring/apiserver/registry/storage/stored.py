"""The stored form of objects: their keys, and their bytes in and out of every version.

A value is the JSON of an object in the storage version of its kind (``output/json_bytes.py`` has its layout), without
`resourceVersion`, which is the revision of its key. Objects of other versions with the same fields are shown without
decoding them; versions with other fields are converted once for each value.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from mooring.api import codec, errors
from mooring.api.dynamic import Dynamic, normalize
from mooring.api.json_tree import Elements, TooLargeError, check_limits
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.output import json_bytes
from mooring.base.bounded_cache import BoundedCache
from mooring.base.tasks import LARGE, run_by_size
from mooring.store.kv import KeyValue

R = TypeVar("R", bound=Resource)
ROOT = "/registry/"
_MAX_CONVERTED = 4096


def check_elements(value: bytes, kind: Kind) -> None:
    """Raise RequestEntityTooLarge if an object has more than twice the JSON elements a request may have."""
    objects, values = codec.max_elements(kind.type)
    if len(value) <= 2 * objects:
        return  # an element takes at least a byte
    most = Elements(2 * objects, 2 * values)  # defaults have added some
    objects, values = json_bytes.count_elements(value)
    if objects <= most.objects and values <= most.values:
        return
    try:
        check_limits(json_bytes.without_managed_fields(value)[0], most)
    except TooLargeError as error:
        raise errors.request_entity_too_large(str(error)) from None


class Stored:
    """Converts the objects of a kind between their stored JSON, typed objects, and the JSON of every API version."""

    needs_webhook = False
    """Whether a webhook converts objects between versions.

    `encode_by_size`, `decode_by_size` and ``verbs/views.py`` ask it; before other methods `prepare` must be awaited.
    """

    def __init__(self, scheme: Scheme, kind: Kind) -> None:
        self.hub = scheme.hub(kind)
        self.storage = scheme.storage(kind)
        self.prefix = f"{ROOT}{kind.group}/{kind.plural}/" if kind.custom else f"{ROOT}{self.hub.plural}/"
        self.current_after = kind.custom.revision if kind.custom else 0
        """The revision after which stored custom objects are known to conform to the current schema of their kind."""
        self._scheme = scheme
        kinds = dict.fromkeys((self.storage, *scheme.family(kind)))
        self._heads = {kind: json_bytes.make_head(kind.kind, kind.api_version) for kind in kinds}
        self._converted: BoundedCache[tuple[bytes, Kind], bytes] = BoundedCache(_MAX_CONVERTED)

    def key(self, namespace: str, name: str) -> str:
        """Return an object's key in the store, `/registry/pods/default/web`; raise BadRequest for a name with NUL."""
        if "\0" in name or "\0" in namespace:
            raise errors.bad_request("a name must not contain the character NUL")
        return f"{self.prefix}{namespace}/{name}" if self.hub.namespaced else self.prefix + name

    def prefix_of(self, namespace: str) -> str:
        """Return the common prefix of the keys in a namespace; for an empty one, of the keys in all."""
        return f"{self.prefix}{namespace}/" if namespace and self.hub.namespaced else self.prefix

    async def prepare(self, values: Iterable[bytes], kind: Kind) -> None:
        """Convert objects before `decode` or `render` are called; does nothing without a conversion webhook."""

    async def encode_by_size(self, obj: Resource, size: int) -> bytes:
        """Return an object's stored JSON: from a thread if large, by the conversion webhook if its kind has one."""
        return self.encode(obj) if size <= LARGE else await run_by_size(partial(self.encode, obj), size)

    async def decode_by_size(self, value: bytes, revision: int, size: int) -> Resource:
        """Return a stored object: decoded in a thread if large, by the conversion webhook if its kind has one."""
        if size <= LARGE:
            return self.decode(value, revision)
        return await run_by_size(partial(self.decode, value, revision), size)

    def encode(self, obj: Resource, version: Kind | None = None) -> bytes:
        """Return the JSON of an object of the newest version as it is stored, or would be in another version."""
        revision, obj.metadata.resource_version = obj.metadata.resource_version, ""
        value = codec.encode(self._scheme.convert(obj, version or self.storage))
        obj.metadata.resource_version = revision
        return value

    def decode(self, value: bytes, revision: int) -> Resource:
        """Return a stored object decoded into the newest version; the result is the caller's to modify."""
        source = self._find_stored_version(value)
        obj = codec.decode_own(value, source.type)
        if isinstance(obj, Dynamic) and (source is self.hub and revision <= self.current_after):
            normalize(obj)
        obj = self._scheme.convert(obj, self.hub)
        obj.metadata.resource_version = str(revision)
        return obj

    def decode_as(self, object_type: type[R], kv: KeyValue) -> R:
        """Return `decode(kv)` for callers that know the kind's type."""
        obj = self.decode(kv.value, kv.mod_revision)
        assert isinstance(obj, object_type), "keys of other kinds have another prefix"  # noqa: S101 - says what is known
        return obj

    def render(self, value: bytes, revision: int, kind: Kind) -> bytes:
        """Return a stored object's JSON in an API version, with its revision as resourceVersion (0: none, dry run)."""
        head, value, begin = self._in_version(value, revision, kind)
        return json_bytes.add_revision(head, revision, value[begin:]) if revision else head + value[begin:]

    def render_item(self, value: bytes, revision: int, kind: Kind) -> bytes:
        """Return a stored object's JSON as an item of a list: without kind and apiVersion if it is built in."""
        head, value, begin = self._in_version(value, revision, kind)
        return json_bytes.add_revision(head if kind.custom else json_bytes.ITEM_HEAD, revision, value[begin:])

    def plain_head(self, kind: Kind) -> bytes | None:
        """Return the JSON head of stored objects that a version can send as stored; None if it must convert."""
        return self._heads[self.storage] if self.storage.has_shape_of(kind) and not kind.custom else None

    def render_items(self, items: Iterable[KeyValue], kind: Kind) -> json_bytes.Pieces:
        """Yield the JSON of a list's objects in pieces, with commas between the objects."""
        head = self.plain_head(kind)
        length, begin = len(head or b""), json_bytes.PLAIN_ITEM
        comma = b""
        for kv in items:
            value = kv.value
            if head and value.startswith(head):
                yield begin % (comma, kv.mod_revision)
                yield memoryview(value)[length:]
            else:
                yield comma + self.render_item(value, kv.mod_revision, kind)
            comma = b","

    def _in_version(self, value: bytes, revision: int, kind: Kind) -> tuple[bytes, bytes, int]:
        """Return the JSON head for a version, the stored object converted to it, and where its metadata begins."""
        source = self._find_stored_version(value)
        if not source.has_shape_of(kind) or (revision <= self.current_after and revision):
            value, source = self._convert(value, kind), kind
        return self._heads[kind], value, len(self._heads[source])

    def _find_stored_version(self, value: bytes) -> Kind:
        """Return the version an object was stored in, mostly the storage version; raise InternalError if unknown."""
        for kind, head in self._heads.items():
            if value.startswith(head):
                return kind
        raise errors.internal_error(f"a stored object of kind {self.hub.kind} is in no version that this server knows")

    def _convert(self, value: bytes, kind: Kind) -> bytes:
        """Return a stored object's JSON converted to another version."""
        found = self._converted.get((value, kind))
        if found is None:
            obj = codec.decode_own(value, self._find_stored_version(value).type)
            if isinstance(obj, Dynamic):
                normalize(obj)
            found = codec.encode(self._scheme.convert(obj, kind))
            self._converted.put((value, kind), found)
        return found


MakeStored = Callable[[Scheme, Kind], Stored]
"""A function that makes a custom kind's `Stored`; ``extension/converting.py`` has one for webhooks."""


class StoredKinds:
    """The `Stored` of each kind: of all built-in kinds, and of the custom kinds that are served."""

    def __init__(self, scheme: Scheme, make_custom: MakeStored = Stored) -> None:
        self.scheme = scheme
        self._make_custom = make_custom
        self._built_in = {kind.family: Stored(scheme, kind) for kind in scheme.known if kind.stored}
        self._custom: dict[Kind, Stored] = {}
        self.unserved = [
            stored
            for stored in self._built_in.values()
            if stored.hub.namespaced and not any(map(scheme.is_served, scheme.family(stored.hub)))
        ]
        """The namespaced kinds that this server does not serve, as it emulates a version without them."""

    def find(self, kind: Kind) -> Stored:
        return self._custom[kind] if kind.custom else self._built_in[kind.family]

    def find_by_type(self, object_type: type[Resource]) -> Stored:
        return self._built_in[self.scheme.hub_of(object_type).family]

    def list_all(self) -> Iterable[Stored]:
        """Return the `Stored` of each kind; the versions of a kind have one in common."""
        custom = {stored.prefix: stored for stored in self._custom.values()}
        return (*self._built_in.values(), *custom.values())

    def add_custom(self, kind: Kind) -> None:
        self._custom[kind] = self._make_custom(self.scheme, kind)

    def remove_custom(self, kind: Kind) -> None:
        self._custom.pop(kind, None)

    def expect_current(self, kinds: Iterable[Kind], after: int) -> None:
        """Record that custom objects written after a revision conform to the schema: no pruning on reads."""
        for kind in kinds:
            if kind in self._custom:
                self._custom[kind].current_after = after
