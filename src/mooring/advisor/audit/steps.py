"""List the steps of an audit with their commands: first for objects, then for components.

The order is that of the proposals (KEPs), which are quoted. Downgrade: change workloads, delete pending pods, restart
the scheduler, then the API server. Upgrade: the API server comes first. Patches `test` the old value, so that an
outdated patch fails. Called by ``auditor.py``; read next: ``rewriting.py``.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from mooring.advisor.audit import rewriting
from mooring.advisor.audit.options import AuditOptions
from mooring.advisor.audit.outcomes import AuditedObject
from mooring.advisor.audit.results import Command, Effect, Finding, ObjectReference, Step
from mooring.advisor.audit.rewriting import Rewriter
from mooring.advisor.lint import specs
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.owners import owners_of
from mooring.api import apps_v1, batch_v1, codec
from mooring.api.core_v1 import Node, PersistentVolume, Pod, ReplicationController
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import Resource
from mooring.api.states import controller_of

_PATCHABLE = (
    apps_v1.Deployment,
    apps_v1.StatefulSet,
    apps_v1.DaemonSet,
    apps_v1.ReplicaSet,
    ReplicationController,
    batch_v1.CronJob,
)
UPDATE_FIRST = {
    "KEP-5471": "Update identified workloads to use `Equal` or remove numeric tolerations",
    "KEP-5721": "Update identified workloads to remove semantic version operators.",
    "KEP-5500": "Update identified workloads to remove CEL expressions fields",
    "KEP-3633": "the newly created Pod's matchLabelKeys or mismatchLabelKeys field is ignored and silently dropped.",
    "KEP-4330": "new values needing the ratcheting may only be written if the compatibility version >= 1.30.",
}
DELETE_PENDING = {
    "KEP-5471": "Delete pending pods that use `Lt`/`Gt` operators",
    "KEP-5721": "Delete pending pods that use `SemverGt`/`SemverLt`/`SemverEq` operators",
    "KEP-5500": "Delete pending pods that use `matchCELExpressions` and `expressions` fields",
}
SCHEDULER_FIRST = "Disable feature gate in kube-scheduler first, then kube-apiserver"
SERVER_FIRST = (
    "Enable the feature gate in kube-apiserver first then kube-scheduler. This ensures the API server can accept and "
    "validate pods with the new operators before the kube-scheduler tries to process them."
)
ONLY_SERVER = (
    "The feature can be disabled in Alpha and Beta versions by restarting kube-apiserver the feature-gate off."
)
RESTART = (
    "For each control plane component, in the recommended order: Cluster admin restarts the component with "
    "`--emulation-version` set"
)
STORAGE = (
    "To enable upgrades and rollbacks, the version selected for storage in etcd in version N must be (en/de)codable "
    "for k8s versions N-1 through N+1."
)
_SCHEDULERS = ("KEP-5471", "KEP-5721", "KEP-5500")
_CHANGED_BY_HAND = "no patch says the same with what stays: decide what the pods should do instead"


@dataclass(frozen=True, slots=True)
class Steps:
    """Lists the steps of an upgrade or downgrade for the findings of an audit."""

    snapshot: Snapshot
    options: AuditOptions
    subjects: Mapping[ObjectReference, AuditedObject]

    def list_all(self, findings: Sequence[Finding]) -> list[Step]:
        """Return the steps of the upgrade or downgrade in order; none for an inventory, where no flags change."""
        if self.options.is_inventory:
            return []
        breaking = [finding for finding in findings if finding.breaks]
        return [
            *self._manifest_steps(breaking),
            *self._workload_steps(breaking),
            *self._pod_steps(breaking),
            *self._steps_for_other_objects(breaking),
            *self._restart_steps(),
            *self._storage_steps(breaking),
        ]

    def _manifest_steps(self, breaking: Sequence[Finding]) -> Iterator[Step]:
        files = dict.fromkeys(f.object.file for f in breaking if not f.object.stored and f.object.file)
        if files:
            run = f"mooring lint {self.options.then.flags.arguments()} {shlex.join(files)}"
            yield Step(
                title="Change the manifests that the new flags refuse",
                commands=[Command(run=run, why="names file, line and field of each")],
            )

    def _workload_steps(self, breaking: Sequence[Finding]) -> Iterator[Step]:
        for proposal, found in _group_by_proposal(f for f in breaking if self._is_template(f.object)).items():
            references = dict.fromkeys(f.object for f in found)
            commands = [command for reference in references for command in self._workload_commands(reference)]
            if commands:
                yield Step(
                    title="Change the workloads whose pods would be refused or changed",
                    because=UPDATE_FIRST.get(proposal, ""),
                    proposal=proposal,
                    commands=commands,
                )

    def _is_template(self, reference: ObjectReference) -> bool:
        subject = self.subjects.get(reference)
        return (
            reference.stored
            and subject is not None
            and not isinstance(subject.object, Pod)
            and specs.find_pod_spec(subject.object) is not None
        )

    def _workload_commands(self, reference: ObjectReference) -> Iterator[Command]:
        obj = self.subjects[reference].object
        owner = controller_of(obj.metadata)
        if owner is not None:
            if not any(_refers_to(each, owner.kind, reference.namespace, owner.name) for each in self.subjects):
                why = f"{owner.kind} {owner.name} makes it: change the template there"
                yield Command(run=kubectl_command("get", reference, _resource_name(reference)), ready=False, why=why)
            return  # the owner's template is the one to change
        at = specs.find_pod_spec(obj)
        if at is None:
            return
        if isinstance(obj, batch_v1.Job):
            why = "the template of a Job cannot be changed: let it end first, or delete it and create it again"
            yield Command(run=kubectl_command("delete", reference, "job"), ready=False, why=why)
            return
        operations = self._patch_operations(at.spec, at.path)
        if not operations or not isinstance(obj, _PATCHABLE):
            yield Command(
                run=kubectl_command("edit", reference, _resource_name(reference)), ready=False, why=_CHANGED_BY_HAND
            )
            return
        yield Command(run=patch_command(reference, operations, _resource_name(reference)))

    def _patch_operations(self, spec: Any, path: str) -> list[dict[str, Any]]:
        rewriter = self._build_rewriter()
        made = structs.replace(spec, tolerations=rewriter.rewrite_tolerations(spec.tolerations))
        base = "/" + path.replace(".", "/")
        operations = _replace_operations(f"{base}/tolerations", spec.tolerations, made.tolerations)
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        if affinity is not None:
            rewritten = rewriter.rewrite_node_affinity(affinity)
            made = structs.replace(made, affinity=structs.replace(spec.affinity, node_affinity=rewritten))
            operations += _replace_operations(f"{base}/affinity/nodeAffinity", affinity, rewritten)
        return [] if rewriting.is_too_long(made) else operations

    def _build_rewriter(self) -> Rewriter:
        return Rewriter(self.snapshot.all(Node), self.options.now.constraints, self.options.then.constraints)

    def _pod_steps(self, breaking: Sequence[Finding]) -> Iterator[Step]:
        found = [
            f
            for f in breaking
            if f.object.kind == "Pod" and f.object.stored and not self._is_replaced_by_rollout(f, breaking)
        ]
        evicted = dict.fromkeys(f.object for f in found if f.effect is Effect.EVICTED)
        if commands := [command for reference in evicted for command in self._commands_to_keep_pod(reference)]:
            yield Step(title="Let running pods tolerate their nodes' taints in words that stay", commands=commands)
        stuck = [f for f in found if f.effect is Effect.STUCK_PENDING]
        for proposal, those in _group_by_proposal(stuck).items():
            references = dict.fromkeys(f.object for f in those)
            force = "--force --grace-period=0"
            yield Step(
                title="Delete the pending pods that would be stuck; their controllers make new ones",
                because=DELETE_PENDING.get(proposal, ""),
                proposal=proposal,
                commands=[
                    Command(run=f"{kubectl_command('delete', each, 'pod')} --ignore-not-found {force}")
                    for each in references
                ],
            )

    def _is_replaced_by_rollout(self, finding: Finding, breaking: Sequence[Finding]) -> bool:
        """Return whether an earlier step patches the pod's workload, whose rollout then replaces the pod."""
        subject = self.subjects.get(finding.object)
        owner = owners_of(self.snapshot).top_owner_of(subject.object) if subject is not None else None
        if not isinstance(owner, apps_v1.Deployment | apps_v1.StatefulSet | apps_v1.DaemonSet):
            return False
        if not isinstance(owner, apps_v1.Deployment) and owner.spec.update_strategy.type == "OnDelete":
            return False
        meta = owner.metadata
        templates = (each.object for each in breaking if each.object.stored)
        return any(_refers_to(each, owner.kind, meta.namespace, meta.name) for each in templates)

    def _commands_to_keep_pod(self, reference: ObjectReference) -> Iterator[Command]:
        subject = self.subjects.get(reference)
        if subject is None or not isinstance(subject.object, Pod):
            return
        rewriter = self._build_rewriter()
        more = [made for each in subject.object.spec.tolerations for made in rewriter.equal_tolerations_for(each)]
        add = [{"op": "add", "path": "/spec/tolerations/-", "value": codec.to_tree(made)} for made in more]
        if add:
            yield Command(run=patch_command(reference, add, "pod"))

    def _steps_for_other_objects(self, breaking: Sequence[Finding]) -> Iterator[Step]:
        commands = []
        for reference in dict.fromkeys(f.object for f in breaking if f.object.stored and f.object.kind != "Pod"):
            if self._is_template(reference):
                continue
            subject = self.subjects.get(reference)
            effects = {f.effect for f in breaking if f.object == reference}
            if subject is not None and effects - {Effect.STORED_UNREADABLE, Effect.NOT_SERVED}:
                commands.append(self._command_for_other_object(subject.object, reference))
        if commands:
            yield Step(title="Change what is neither pod nor workload", commands=commands)
        lost = [f for f in breaking if f.effect is Effect.NOT_SERVED]
        if lost:
            yield self._version_step(lost)

    def _command_for_other_object(self, obj: Resource, reference: ObjectReference) -> Command:
        if isinstance(obj, PersistentVolume) and self.options.now.admission.mutable_pv_node_affinity:
            required = obj.spec.node_affinity and obj.spec.node_affinity.required
            if required:
                after = self._build_rewriter().rewrite_selector(required)
                operations = _replace_operations("/spec/nodeAffinity/required", required, after)
                return Command(run=patch_command(reference, operations, "pv"))
        why = "its spec cannot be changed: save it, change the copy, and create it again"
        return Command(
            run=f"{kubectl_command('get', reference, _resource_name(reference))} -o yaml", ready=False, why=why
        )

    def _version_step(self, lost: Sequence[Finding]) -> Step:
        commands = []
        for finding in lost:
            group = GroupVersion.parse(finding.value).group
            kind = self.options.now.scheme.kind(finding.value, finding.object.kind)
            others = [each for each in self.options.then.scheme.served if kind and each.family == kind.family]
            if kind is None or not others:
                continue
            plural = f"{others[0].plural}.{others[0].version}.{group}"
            why = f"the same object as {others[0].api_version}; write manifests like this"
            commands.append(Command(run=f"{kubectl_command('get', finding.object, plural)} -o yaml", why=why))
        title = "Write manifests and clients for API versions that stay"
        unserved = sorted({f.value for f in lost})
        return Step(title=f"{title} (not {', '.join(unserved)})", proposal="KEP-4330", commands=commands)

    def _restart_steps(self) -> Iterator[Step]:
        now, then = self.options.now.flags, self.options.then.flags
        goes_up = bool(self.options.changes) and all(change.enabled for change in self.options.changes)
        arguments = _changed_arguments(now, then)
        proposals = [change.proposal for change in self.options.changes]
        order: tuple[str, ...] = ("scheduler", "controllers", "apiserver")
        because, proposal = SCHEDULER_FIRST, next((each for each in proposals if each in _SCHEDULERS), "")
        if goes_up:
            order, because = ("apiserver", "controllers", "scheduler"), SERVER_FIRST
        elif proposals and set(proposals) <= {"KEP-3633"}:
            order, because, proposal = ("apiserver",), ONLY_SERVER, "KEP-3633"
        if now.emulation_version != then.emulation_version and not proposal:
            because, proposal = RESTART, "KEP-4330"
        elif not proposal:
            because = ""
        for position, name in enumerate(order):
            yield Step(
                title=f"Restart {_COMPONENTS[name]}" + (" first" if position == 0 and len(order) > 1 else ""),
                because=because if position == 0 else "",
                proposal=proposal if position == 0 else "",
                commands=[Command(run=f"mooring {name} {arguments}", why="beside its other flags")],
            )

    def _storage_steps(self, breaking: Sequence[Finding]) -> Iterator[Step]:
        unreadable = [f for f in breaking if f.effect is Effect.STORED_UNREADABLE]
        if not unreadable:
            return
        commands = []
        for version, kind_name in dict.fromkeys((f.value, f.object.kind) for f in unreadable):
            kind = self.options.then.scheme.kind(version, kind_name)
            if kind is None:
                continue
            name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            everywhere = " -A" if kind.namespaced else ""
            if self.options.can_read(self.options.then.scheme.storage(kind)):
                run = f"kubectl get {name}{everywhere} -o json | kubectl replace -f -"
                commands.append(Command(run=run, why="each is stored again, in the version that the server writes now"))
            else:
                why = f"{self.options.oldest_reader} has no version of this kind"
                commands.append(Command(run=f"kubectl delete {name} --all{everywhere}", ready=False, why=why))
        yield Step(title="Write again what is stored", because=STORAGE, proposal="KEP-4330", commands=commands)


_COMPONENTS = {"scheduler": "the scheduler", "controllers": "the controllers", "apiserver": "the API server"}
_SHORT = {"PersistentVolume": "pv"} | {kind.__name__: kind.__name__.lower() for kind in _PATCHABLE}


def _refers_to(reference: ObjectReference, kind: str, namespace: str, name: str) -> bool:
    return (reference.kind, reference.namespace, reference.name) == (kind, namespace, name)


def _resource_name(reference: ObjectReference) -> str:
    return _SHORT.get(reference.kind) or resource_name_of(reference.kind, reference.api_version)


def _replace_operations(path: str, old: Any, new: Any) -> list[dict[str, Any]]:
    before, after = codec.to_tree(old), codec.to_tree(new)
    if before == after:
        return []
    check = {"op": "test", "path": path, "value": before}
    if not after:
        return [check, {"op": "remove", "path": path}]
    return [check, {"op": "replace", "path": path, "value": after}]


def _group_by_proposal(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    seen: dict[ObjectReference, str] = {}
    for finding in findings:
        proposal = seen.setdefault(finding.object, finding.proposal)
        groups.setdefault(proposal, []).append(finding)
    return groups


def _changed_arguments(now: Any, then: Any) -> str:
    old = set(now.arguments().split())
    gates = {name for name in now.feature_gates if name not in then.feature_gates}
    words = [word for word in then.arguments().split() if word not in old]
    note = "".join(f" # without --feature-gates={name}" for name in sorted(gates))
    return " ".join(words) + note


def resource_name_of(kind: str, api_version: str) -> str:
    """Return the resource name of a kind for kubectl: `pod`, `deployment.apps`."""
    group = GroupVersion.parse(api_version).group
    return f"{kind.lower()}.{group}" if group else kind.lower()


def kubectl_command(verb: str, reference: ObjectReference, resource: str = "") -> str:
    """Return a kubectl command on one object; `resource` replaces the resource name if given."""
    namespace = f" -n {shlex.quote(reference.namespace)}" if reference.namespace else ""
    resource = resource or resource_name_of(reference.kind, reference.api_version)
    return f"kubectl {verb}{namespace} {resource} {shlex.quote(reference.name)}"


def patch_command(reference: ObjectReference, operations: Sequence[dict[str, Any]], resource: str = "") -> str:
    """Return the `kubectl patch --type=json` command that applies operations to the referenced object."""
    body = shlex.quote(json.dumps(operations, ensure_ascii=False))
    return f"{kubectl_command('patch', reference, resource)} --type=json -p {body}"
