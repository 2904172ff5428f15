"""Stored objects of custom kinds whose versions a webhook converts: it is asked ahead, and what it said is remembered.

Lists and watches show bytes without waiting, and so does everything in ``registry/stored.py``. Whoever is about to show
or read objects calls `prepare` first, which asks the webhook for those that are in another version, all at once.
`converting_by` is what ``registry/context.py`` is given to make one for definitions with the strategy `Webhook`.
"""

from collections.abc import Iterable

import msgspec

from mooring.api import codec, errors
from mooring.api.dynamic import Dynamic, normalize, of_own
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.webhooks.caller import WebhookCaller
from mooring.apiserver.extension.webhooks.conversion import Conversion
from mooring.apiserver.registry.context import StoredAs
from mooring.apiserver.registry.stored import Stored, check_elements
from mooring.base.bounded_cache import BoundedCache

_REMEMBERED = 65_536


def converting_by(caller: WebhookCaller) -> StoredAs:
    """Read and write the objects of a custom kind, with its conversion webhook where the definition names one."""

    def stored_as(scheme: Scheme, kind: Kind) -> Stored:
        conversion = kind.custom.definition.spec.conversion if kind.custom else None
        if conversion is None or conversion.webhook is None:
            return Stored(scheme, kind)
        return Converting(scheme, kind, Conversion(conversion.webhook, caller))

    return stored_as


class Converting(Stored):
    """The objects of one version, of which some are stored in another."""

    asks = True

    def __init__(self, scheme: Scheme, kind: Kind, conversion: Conversion) -> None:
        super().__init__(scheme, kind)
        self._conversion = conversion
        self._converted = BoundedCache(_REMEMBERED)

    async def prepare(self, values: Iterable[bytes], kind: Kind) -> None:
        """Ask for the objects that are in another version; raises InternalError."""
        missing = [
            value
            for value in dict.fromkeys(values)
            if self._source(value) is not kind and self._converted.get((value, kind)) is None
        ]
        if not missing:
            return
        sent = [msgspec.json.decode(value) for value in missing]
        for value, tree in zip(missing, await self._conversion.converted(sent, kind.api_version), strict=True):
            if not issubclass(kind.type, Dynamic):
                raise errors.internal_error(f"{kind.kind} is no custom kind")
            self._converted.put((value, kind), codec.encode(normalize(of_own(tree, kind.type))))

    async def encoded(self, obj: Resource) -> bytes:
        own = self._own(obj)
        if self.storage is self.hub:
            return own
        await self.prepare([own], self.storage)
        return self._convert(own, self.storage)

    def encode(self, obj: Resource) -> bytes:
        own = self._own(obj)
        return own if self.storage is self.hub else self._convert(own, self.storage)

    def decode(self, value: bytes, revision: int) -> Resource:
        if self._source(value) is self.hub:
            return super().decode(value, revision)
        obj = codec.decode_own(self._convert(value, self.hub), self.hub.type)
        obj.metadata.resource_version = str(revision)
        return obj

    def _own(self, obj: Resource) -> bytes:
        """An object in the version that it has, as that would be stored."""
        version, obj.metadata.resource_version = obj.metadata.resource_version, ""
        own = codec.encode(obj)
        obj.metadata.resource_version = version
        check_elements(own, self.hub)
        return own

    def _convert(self, value: bytes, kind: Kind) -> bytes:
        if self._source(value) is kind:
            return super()._convert(value, kind)
        found = self._converted.get((value, kind))
        if found is None:
            raise errors.internal_error(f"an object of kind {kind.kind} has not been converted to {kind.api_version}")
        return found
