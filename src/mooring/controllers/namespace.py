"""Delete the content of terminating namespaces, then finalize them."""

from contextlib import suppress

from msgspec import structs

from mooring.api import errors, times
from mooring.api.core_v1 import Namespace, NamespaceCondition, Pod
from mooring.api.kinds import Kind
from mooring.client import Informer
from mooring.controllers.conditions import build_condition
from mooring.controllers.controller import Context, Controller
from mooring.controllers.garbage_collector import find_collectable_kinds

FINALIZER = "kubernetes"
_NO_FAILURES = (
    ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)
"""Conditions about aggregated servers, which are always False here."""
_POLL_SECONDS = 1.0
_LONGEST_POLL_SECONDS = 15.0


class NamespaceController(Controller):
    """The controller that deletes the content of terminating namespaces; reconciles them by name."""

    name = "namespace"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        # Pods first: see `_delete_objects`.
        self._kinds = sorted(find_collectable_kinds(self.client.scheme.served), key=lambda kind: kind.type is not Pod)
        self._namespaces: Informer[Namespace] = context.informers.of(Namespace)
        self.follow(self._namespaces, self._enqueue_terminating)
        self._polls: dict[str, int] = {}
        context.custom_kinds.follow(self._kinds.append, self._kinds.remove)

    def _enqueue_terminating(self, namespace: Namespace) -> None:
        if namespace.metadata.deletion_timestamp is not None:
            self.enqueue(namespace)

    async def reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        remaining, finalizers = await self._delete_objects(key)
        if not remaining:
            self._polls.pop(key, None)
            await self._finalize_namespace(namespace)
            return None
        await self._write_status(namespace, remaining, finalizers)
        polls = self._polls[key] = self._polls.get(key, 0) + 1
        return min(_POLL_SECONDS * polls, _LONGEST_POLL_SECONDS)

    async def _delete_objects(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """Delete a namespace's objects, pods first; return the numbers of remaining ones by resource and finalizer."""
        remaining: dict[str, int] = {}
        finalizers: dict[str, int] = {}
        for kind in [*self._kinds]:
            if not kind.namespaced or not self.client.knows(kind.type):
                continue  # its definition was deleted, with all objects
            found = await self.client.page(kind.type, name, limit=1)
            if not found.items:
                continue
            await self.client.delete_collection(kind.type, name, propagation_policy="Background")
            await self._count_remaining(kind, name, remaining, finalizers)
            if kind.type is Pod and remaining:
                break  # objects that pods use are deleted after the pods
        return remaining, finalizers

    async def _count_remaining(
        self, kind: Kind, name: str, remaining: dict[str, int], finalizers: dict[str, int]
    ) -> None:
        left = (await self.client.list(kind.type, name, managed_fields=False)).items
        if left:
            remaining[f"{kind.plural}.{kind.group}"] = len(left)
        for obj in left:
            for finalizer in obj.metadata.finalizers:
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1

    async def _finalize_namespace(self, namespace: Namespace) -> None:
        current = await self.client.get(Namespace, namespace.metadata.name)
        left = [name for name in current.spec.finalizers if name != FINALIZER]
        with suppress(errors.NotFound):
            await self.client.update(
                structs.replace(current, spec=structs.replace(current.spec, finalizers=left)), subresource="finalize"
            )

    async def _write_status(self, namespace: Namespace, remaining: dict[str, int], finalizers: dict[str, int]) -> None:
        content = ", ".join(f"{resource} has {count} resource instances" for resource, count in remaining.items())
        waiting = ", ".join(f"{name} in {count} resource instances" for name, count in finalizers.items())
        finishing = ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
        if finalizers:
            message = f"Some content in the namespace has finalizers remaining: {waiting}"
            finishing = ("True", "SomeFinalizersRemain", message)
        wanted = [
            *_NO_FAILURES,
            ("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {content}"),
            ("NamespaceFinalizersRemaining", *finishing),
        ]
        now, before = times.to_seconds(self.clock.now()), namespace.status.conditions
        conditions = [build_condition(NamespaceCondition, before, content, now) for content in wanted]
        if conditions != list(namespace.status.conditions):
            await self.patch_status(namespace, {"conditions": conditions})
