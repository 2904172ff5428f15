"""The builder of candidate remedies that change a workload or other objects, not nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from mooring.advisor.explain import patches
from mooring.advisor.explain.rehearsal import Proposal
from mooring.advisor.explain.remedies.remedy import BOUND, LARGE, MODEST, Edit
from mooring.advisor.explain.results import Cause, Change, Suggestion
from mooring.advisor.explain.search import CORRECTION, LAST, Candidate, build_pod_change
from mooring.advisor.explain.subject import Subject, set_fields
from mooring.advisor.snapshot import Snapshot
from mooring.api.apps_v1 import Deployment, ReplicaSet, StatefulSet
from mooring.api.core_v1 import Pod, ReplicationController
from mooring.api.meta_v1 import Resource

_REPLICATED = Deployment | ReplicaSet | StatefulSet | ReplicationController


@dataclass(frozen=True, slots=True)
class Context:
    """A pod or workload and the cause why its pods do not run; its methods build candidate remedies from changes."""

    snapshot: Snapshot
    subject: Subject
    cause: Cause
    missing: int
    """How many pods of the workload do not exist; at least 1."""

    @property
    def pod(self) -> Pod:
        return self.subject.pod

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    def edit_pod(self, summary: str, size: int, edit: Edit, caveat: str = "") -> Iterator[Candidate]:
        """Yield the candidate that edits the pod's spec or its template; nothing if the edit changes nothing."""
        after = self.subject.with_edited_pod(edit)
        if after is not None:
            yield self.build_candidate(summary, size, [build_pod_change(self.subject, after)], after, caveat=caveat)

    def edit_workload(
        self, summary: str, size: int, edit: Callable[[Any], bool], command: str = "", caveat: str = ""
    ) -> Iterator[Candidate]:
        """Yield the candidate that edits the workload's own spec; nothing if the edit changes nothing."""
        after = self.subject.with_edited_source(lambda source: edit(source.spec))
        if after is not None:
            change = patches.patch_change(self.subject.source, after.source, command)
            yield self.build_candidate(summary, size, [change], after, caveat=caveat)

    def create_object(self, summary: str, obj: Resource, caveat: str = "") -> Iterator[Candidate]:
        yield self.build_candidate(summary, LARGE, [patches.create_change(obj)], put=(obj,), caveat=caveat)

    def modify_object(
        self, summary: str, size: int, before: Resource, after: Resource, caveat: str = ""
    ) -> Iterator[Candidate]:
        change = patches.patch_change(before, after)
        patch = [each for each in change.patch if not each["path"].startswith("/status")]
        change = structs.replace(change, patch=patch, command=patches.patch_command(change.target, patch))
        yield self.build_candidate(summary, size, [change], put=(after,), caveat=caveat)

    def scale_to(self, replicas: int) -> Iterator[Candidate]:
        """Yield the candidate that scales the workload; nothing for kinds without replicas or without a change."""
        source, meta = self.subject.source, self.subject.source.metadata
        if isinstance(source, _REPLICATED) and replicas != source.spec.replicas:
            kind = source.kind.lower()
            command = patches.kubectl_command(
                "scale", f"{kind}/{meta.name}", f"--replicas={replicas}", namespace=meta.namespace
            )
            summary = f"scale {kind} {meta.name} to {replicas}"
            yield from self.edit_workload(summary, MODEST + 1, set_fields(replicas=replicas), command)

    def scale_down(self, replicas: int | None = None) -> Iterator[Candidate]:
        """Yield the candidate that scales the workload down (by default to its pods with a node), but not to zero."""
        if replicas is None:
            replicas = sum(bool(pod.spec.node_name) for pod in self.subject.siblings)
        source = self.subject.source
        if isinstance(source, _REPLICATED) and 0 < replicas < (source.spec.replicas or 1):
            yield from self.scale_to(replicas)

    def build_candidate(
        self,
        summary: str,
        size: int,
        changes: list[Change],
        after: Subject | None = None,
        *,
        put: tuple[Resource, ...] = (),
        caveat: str = "",
    ) -> Candidate:
        """Return the candidate for changes that result in the workload `after`, or in other objects (`put`)."""
        suggestion = Suggestion(summary=summary, size=size, changes=changes, caveat=caveat)
        order = CORRECTION if size == BOUND else LAST
        return Candidate(suggestion, Proposal(self.subject, after or self.subject, put), order)
