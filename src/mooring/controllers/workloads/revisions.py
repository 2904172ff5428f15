"""ControllerRevisions: past templates of a StatefulSet or DaemonSet, for staged updates and rollback.

A revision holds the template as a patch, which `kubectl rollout undo` applies to the workload. The highest number is
the current template; a rollback gives the old revision the highest number.
"""

from collections.abc import Collection
from typing import Any, Protocol

import msgspec
from msgspec import structs

from mooring.api import codec, errors
from mooring.api.apps_v1 import ControllerRevision
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.label_selector import Selector
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.states import controller_of
from mooring.client import Client, Informers
from mooring.controllers.workloads.deployment_replica_sets import collision_suffix, fnv1a, safe_encode
from mooring.controllers.workloads.ownership import Children, Expectations, build_controller_reference

POD_LABEL = "controller-revision-hash"
HASH_LABEL = "controller.kubernetes.io/hash"
_COLLISIONS = 10


class TemplateOwnerSpec(Protocol):
    template: PodTemplateSpec
    revision_history_limit: int | None


class RevisionHistory(msgspec.Struct, frozen=True):
    """The revisions of a workload, oldest first; `update` is the revision of its current template."""

    revisions: list[ControllerRevision]
    update: ControllerRevision
    collisions: int | None


def build_template_patch(template: PodTemplateSpec) -> dict[str, Any]:
    """Return the patch that a ControllerRevision stores for a template; its keys are sorted as by Go's clients."""
    tree = msgspec.json.decode(codec.encode(template))
    patch = {"spec": {"template": {**tree, "$patch": "replace"}}}
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(patch, order="deterministic"))
    return found


def decode_template(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the pod template that a ControllerRevision stores."""
    tree = dict((revision.data or {}).get("spec", {}).get("template", {}))
    tree.pop("$patch", None)
    return codec.decode_own(msgspec.json.encode(tree), PodTemplateSpec)


def revision_hash(revision: ControllerRevision) -> str:
    return revision.metadata.labels.get(HASH_LABEL, "")


class Revisions:
    """The ControllerRevisions of one controller's workloads."""

    def __init__(self, informers: Informers, expectations: Expectations) -> None:
        self._client: Client = informers.client
        self.children = Children(informers, ControllerRevision)
        self._expectations = expectations

    async def ensure_current_revision(
        self, key: str, owner: Resource, spec: TemplateOwnerSpec, selector: Selector, collisions: int | None
    ) -> RevisionHistory:
        """Create the current template's revision, or give it the highest number; return the workload's revisions."""
        found = await self.children.claim(owner, selector)
        found.sort(key=lambda each: (each.revision, each.metadata.creation_timestamp or "", each.metadata.name))
        wanted = build_template_patch(spec.template)
        number = found[-1].revision + 1 if found else 1
        same = [each for each in found if each.data == wanted]
        if not same:
            made, collisions = await self._create_revision(key, owner, spec.template, number, collisions)
            return RevisionHistory([*found, made], made, collisions)
        update = same[-1]
        if update is not found[-1]:
            update = await self._client.update(structs.replace(update, revision=number))
            self._expectations.record_write(key, self.children.informer, update)
            others = [each for each in found if each.metadata.uid != update.metadata.uid]
            return RevisionHistory([*others, update], update, collisions)
        return RevisionHistory(found, update, collisions)

    async def _create_revision(
        self, key: str, owner: Resource, template: PodTemplateSpec, number: int, collisions: int | None
    ) -> tuple[ControllerRevision, int | None]:
        data = build_template_patch(template)
        for _ in range(_COLLISIONS):
            text = msgspec.json.encode(data, order="deterministic")
            hashed = safe_encode(str(fnv1a(text + collision_suffix(collisions))))
            meta = ObjectMeta(
                name=f"{owner.metadata.name}-{hashed}",
                namespace=owner.metadata.namespace,
                labels={**template.metadata.labels, HASH_LABEL: hashed, POD_LABEL: hashed},
                annotations=owner.metadata.annotations,
                owner_references=[build_controller_reference(self._client, owner)],
            )
            try:
                made = await self._client.create(ControllerRevision(metadata=meta, data=data, revision=number))
            except errors.AlreadyExists:
                made = await self._client.get(ControllerRevision, meta.name, meta.namespace)
                holder = controller_of(made.metadata)
                if made.data != data or holder is None or holder.uid != owner.metadata.uid:
                    collisions = (collisions or 0) + 1
                    continue
            self._expectations.record_write(key, self.children.informer, made)
            return made, collisions
        raise errors.already_exists("controllerrevisions", owner.metadata.name, group="apps")

    async def delete_old_revisions(
        self, key: str, spec: TemplateOwnerSpec, history: RevisionHistory, in_use: Collection[str]
    ) -> None:
        """Delete the oldest revisions beyond `revisionHistoryLimit`; revisions of existing pods (`in_use`) are kept."""
        limit = 10 if spec.revision_history_limit is None else spec.revision_history_limit
        unused = [
            each
            for each in history.revisions
            if each.metadata.name not in in_use
            and revision_hash(each) not in in_use
            and each.metadata.uid != history.update.metadata.uid
        ]
        for each in unused[: max(0, len(unused) - limit)]:
            await self.children.delete(key, each, self._expectations)
