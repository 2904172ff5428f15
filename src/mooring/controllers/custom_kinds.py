"""Follow CustomResourceDefinitions, for controllers that work on objects of every kind.

    context.custom_kinds.follow(added=self._keep, removed=self._drop)

Only the metadata of custom objects is cached. Constructed by ``controller.py``; used by the garbage collector and
namespace deletion.
"""

from collections.abc import Callable

import msgspec

from mooring.api.apiextensions_v1 import ESTABLISHED, CustomResourceDefinition, holds
from mooring.api.kinds import Kind, preference
from mooring.client import Client, Informers

KindHandler = Callable[[Kind], None]


class _Known(msgspec.Struct, frozen=True):
    generation: int
    kind: Kind


class CustomKinds:
    """The custom kinds of a cluster, each in the server's preferred version."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._known: dict[str, _Known] = {}
        self._handlers: list[tuple[KindHandler, KindHandler]] = []
        definitions = informers.of(CustomResourceDefinition)
        definitions.add_handler(added=self._look_at, updated=lambda _, new: self._look_at(new), deleted=self._gone)

    def follow(self, added: KindHandler, removed: KindHandler) -> None:
        """Call back for every kind, including those that exist already."""
        self._handlers.append((added, removed))
        for known in self._known.values():
            added(known.kind)

    def _look_at(self, definition: CustomResourceDefinition) -> None:
        known = self._known.get(definition.metadata.name)
        generation = definition.metadata.generation
        if known is not None and known.generation == generation and holds(definition, ESTABLISHED):
            return
        self._gone(definition)
        served = [version for version in definition.spec.versions if version.served]
        if not served or not holds(definition, ESTABLISHED):
            return
        from mooring.api.custom_kinds import kinds_of  # noqa: PLC0415 - clusters without any never need it

        learned = kinds_of(definition, metadata_only=True)
        preferred = min((version.name for version in served), key=preference)
        kind = next(kind for kind in learned.versions if kind.version == preferred)
        self._client.learn(learned.versions, learned.storage)
        self._known[definition.metadata.name] = _Known(generation, kind)
        for added, _ in self._handlers:
            added(kind)

    def _gone(self, definition: CustomResourceDefinition) -> None:
        known = self._known.pop(definition.metadata.name, None)
        if known is None:
            return
        for _, removed in self._handlers:
            removed(known.kind)
        self._client.forget(known.kind)
