"""The context of remedies that do not concern nodes: what they may change, and how a change becomes a candidate."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from mooring.advisor.explain import patches
from mooring.advisor.explain.patches import kubectl
from mooring.advisor.explain.rehearsal import Proposal
from mooring.advisor.explain.remedies.remedy import BOUND, LARGE, MODEST, Edit
from mooring.advisor.explain.results import Cause, Change, Suggestion
from mooring.advisor.explain.search import CORRECTION, LAST, Candidate, pod_change
from mooring.advisor.explain.subject import Subject, setting
from mooring.advisor.snapshot import Snapshot
from mooring.api import codec
from mooring.api.apps_v1 import Deployment, ReplicaSet, StatefulSet
from mooring.api.core_v1 import Pod, ReplicationController
from mooring.api.meta_v1 import Resource

_REPLICATED = Deployment | ReplicaSet | StatefulSet | ReplicationController


@dataclass(frozen=True, slots=True)
class Context:
    """A pod or workload, the cause why its pods do not run, and functions that make candidate remedies of changes."""

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

    def edit(self, summary: str, size: int, edit: Edit, caveat: str = "") -> Iterator[Candidate]:
        """Yield a remedy that changes the pod's spec."""
        after = self.subject.edited(edit)
        if after is not None:
            yield self.candidate(summary, size, [pod_change(self.subject, after)], after, caveat=caveat)

    def workload(
        self, summary: str, size: int, edit: Callable[[Any], bool], command: str = "", caveat: str = ""
    ) -> Iterator[Candidate]:
        """Yield a remedy that changes the workload's spec outside of its template."""
        after = self.subject.with_source(lambda source: edit(source.spec))
        if after is not None:
            operations = patches.difference(codec.to_tree(self.subject.source), codec.to_tree(after.source))
            target = patches.target_of(self.subject.source)
            command = command or patches.patch_command(target, operations)
            change = Change(target=target, action="patch", patch=operations, command=command)
            yield self.candidate(summary, size, [change], after, caveat=caveat)

    def create(self, summary: str, obj: Resource, caveat: str = "") -> Iterator[Candidate]:
        yield self.candidate(summary, LARGE, [patches.creation(obj)], put=(obj,), caveat=caveat)

    def modify(
        self, summary: str, size: int, before: Resource, after: Resource, caveat: str = ""
    ) -> Iterator[Candidate]:
        change = patches.modification(before, after)
        patch = [each for each in change.patch if not each["path"].startswith("/status")]
        change = structs.replace(change, patch=patch, command=patches.patch_command(change.target, patch))
        yield self.candidate(summary, size, [change], put=(after,), caveat=caveat)

    def scale(self, replicas: int) -> Iterator[Candidate]:
        """Yield the remedy that scales the workload, if it has replicas and another number of them."""
        source, meta = self.subject.source, self.subject.source.metadata
        if isinstance(source, _REPLICATED) and replicas != source.spec.replicas:
            kind = source.kind.lower()
            command = kubectl("scale", f"{kind}/{meta.name}", f"--replicas={replicas}", namespace=meta.namespace)
            summary = f"scale {kind} {meta.name} to {replicas}"
            yield from self.workload(summary, MODEST + 1, setting(replicas=replicas), command)

    def scale_to_running(self) -> Iterator[Candidate]:
        """Yield the remedy that scales the workload down to its pods that have a node, if some have none."""
        source, running = self.subject.source, sum(bool(pod.spec.node_name) for pod in self.subject.siblings)
        if isinstance(source, _REPLICATED) and 0 < running < (source.spec.replicas or 1):
            yield from self.scale(running)

    def candidate(
        self,
        summary: str,
        size: int,
        changes: list[Change],
        after: Subject | None = None,
        *,
        put: tuple[Resource, ...] = (),
        caveat: str = "",
    ) -> Candidate:
        """Return the candidate of changes, which result in another workload or in other objects."""
        suggestion = Suggestion(
            summary=summary, size=size, plugins=[], changes=changes, node="", feasible_nodes=0, caveat=caveat
        )
        order = CORRECTION if size == BOUND else LAST
        return Candidate(suggestion, Proposal(self.subject, after or self.subject, put), order)
