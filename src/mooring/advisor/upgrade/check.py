"""Check whether an upgrade succeeds and can be rolled back: audits both ways, simulated drains, remedies."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mooring.advisor import releases
from mooring.advisor.lint.reports import format_count
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases import Crossing, Effect, Finding, ReleaseAudit, steps
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.running import ReportProgress
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade.drains import DrainOptions, drain_all
from mooring.advisor.upgrade.remedies import RemedySearch
from mooring.advisor.upgrade.results import LocalData, Remedy, Rollout, Skew, UpgradeCheck, Verdict
from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.states import controller_of, has_ended

_MOST_COMMANDS = 5
"""How many commands of one step are among the changes to make before."""


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The input of an upgrade check: a snapshot, the two releases, and how nodes are drained."""

    snapshot: Snapshot
    crossing: Crossing
    drains: DrainOptions
    settings: Settings
    goes_back: bool = False
    clients: Sequence[Finding] = ()
    """Findings about clients, from audit logs and metrics."""
    helm: Snapshot | None = None
    """The manifests of Helm releases."""


def check_upgrade(subject: UpgradeRequest, report: ReportProgress | None = None) -> UpgradeCheck:
    """Audit an upgrade, simulate its drains and search remedies; return the verdict with all results."""
    snapshot, crossing = subject.snapshot, subject.crossing
    up = releases.audit(snapshot, crossing, beside=subject.clients)
    back = helm = None
    if subject.goes_back:
        back = releases.audit(snapshot, Crossing.between(str(crossing.end), str(crossing.start), crossing.gates))
    if subject.helm is not None:
        helm = releases.audit(subject.helm, crossing, plays=False)
    nodes = snapshot.all(Node)
    options = replace(subject.drains, version=str(crossing.end))
    rollout = drain_all(snapshot, options, subject.settings, report=report) if nodes else None
    skew = tuple(find_kubelet_skew(nodes, crossing))
    local = tuple(find_local_data(snapshot))
    remedies = list(_preparation_remedies(up))
    if rollout is not None and rollout.is_complete:
        remedies += RemedySearch(snapshot, rollout, options, subject.settings).run()
    errors = [*_audit_errors(up, back, helm), *_rollout_errors(rollout)]
    warnings = list(_collect_warnings(up, back, local, rollout))
    for each in skew:
        reason = f"at {each.release}: {format_count(len(each.nodes), 'kubelet')} of {each.kubelet}: {each.problem}"
        if _is_solved_by_steps(each, crossing):
            warnings.append(f"{reason} (as the steps do)")
        else:
            errors.append(reason)
    verdict: Verdict = "does not pass" if errors else "passes with warnings" if warnings else "passes"
    return UpgradeCheck(
        cluster=snapshot.origin,
        from_version=str(crossing.start),
        to_version=str(crossing.end),
        verdict=verdict,
        reasons=(*errors, *warnings),
        up=up,
        back=back,
        helm=helm,
        steps=tuple(up.steps),
        skew=skew,
        rollout=rollout,
        local_data=local,
        remedies=tuple(remedies),
        assumptions=tuple(_list_assumptions(options, rollout.daemon_pods)) if rollout is not None else (),
        notes=tuple(dict.fromkeys([*up.notes, *([] if nodes else ["no nodes: no drains were played"])])),
    )


def _audit_errors(up: ReleaseAudit, back: ReleaseAudit | None, helm: ReleaseAudit | None) -> Iterator[str]:
    for audit, text in ((up, "after the upgrade"), (back, "on the way back"), (helm, "in manifests of Helm releases")):
        count = _count_objects(audit, Severity.ERROR)
        if count:
            yield f"{format_count(count, 'object')} lost, refused or stuck {text}"


def _rollout_errors(rollout: Rollout | None) -> Iterator[str]:
    if rollout is None:
        return
    if rollout.unfinished:
        names = [each.node for each in rollout.unfinished]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"{len(names)} of {len(rollout.nodes)} nodes cannot be drained: {', '.join(names[:3])}{more}"
    if pending := sum(each.pods for each in rollout.pending):
        yield f"{format_count(pending, 'pod')} without a node after the drains"
    if not rollout.is_complete:
        yield "the drains were interrupted"


def _is_solved_by_steps(skew: Skew, crossing: Crossing) -> bool:
    """Return whether the upgrade's own steps replace the kubelets before their version becomes unsupported."""
    return skew.release != crossing.releases[0] if crossing.goes_up else skew.is_newer


def _preparation_remedies(up: ReleaseAudit) -> Iterator[Remedy]:
    """Yield a remedy for each change of objects that the audit requires before the control plane is upgraded."""
    findings = [each for each in up.findings if each.effect is not Effect.SKEW]
    for step in steps.preparation_steps(findings):
        shown = step.commands[:_MOST_COMMANDS]
        for command in shown:
            left = len(step.commands) - len(shown) if command is shown[-1] else 0
            more = f"; {format_count(left, 'other command')} among the steps" if left else ""
            yield Remedy(step.title, command.run, f"{command.why}{more}")


def _collect_warnings(
    up: ReleaseAudit, back: ReleaseAudit | None, local: Sequence[LocalData], rollout: Rollout | None
) -> Iterator[str]:
    for audit, text in ((up, "of the upgrade"), (back, "of the way back")):
        if count := _count_objects(audit, Severity.WARNING):
            yield f"{format_count(count, 'warning')} {text}"
    if rollout is not None:
        if rollout.interruptions:
            count = len(rollout.interruptions)
            yield f"{format_count(count, 'workload')} without a ready pod while {'it' if count == 1 else 'they'} move"
        if delays := [each.seconds for each in rollout.blocks if not each.is_final]:
            yield f"budgets delay drains by up to {max(delays):.0f} s"
        if rollout.delayed:
            pods = format_count(sum(each.pods for each in rollout.delayed), "pod")
            yield f"{pods} without a node for a while, up to {max(each.seconds or 0 for each in rollout.delayed):.0f} s"
    if local:
        yield f"{format_count(len({each.pod for each in local}), 'pod')} with local data or without a controller"


def _count_objects(audit: ReleaseAudit | None, level: Severity) -> int:
    """Count objects with findings of a level, except kubelets, whose versions are checked for every release."""
    findings = audit.findings if audit is not None else ()
    return len({each.object for each in findings if each.level is level and each.effect is not Effect.SKEW})


def _list_assumptions(options: DrainOptions, daemon_pods: int) -> Iterator[str]:
    missing = options.unavailable
    way = f"{missing} at a time, in place"
    if options.surge:
        way = f"{options.surge} new at a time" + (f", {missing} more at once" if missing else "")
    yield f"nodes by {options.order}, {way}; {options.node_seconds:.0f} s from empty to Ready"
    yield (
        "pods are ready after the median time of their workload's pods in the cluster; "
        f"{options.start_seconds:.0f} s where there is none"
    )
    yield "pods stop at once: add the grace periods of pods that use theirs"
    if options.force_seconds is not None:
        yield f"pods are deleted in spite of budgets after {options.force_seconds:.0f} s"
    else:
        yield f"a drain is given up after {options.timeout_seconds:.0f} s; the node stays cordoned"
    if daemon_pods:
        yield f"{format_count(daemon_pods, 'pod')} of DaemonSets stop and start with their node"


_MIRROR = "kubernetes.io/config.mirror"
_HOSTNAME = "kubernetes.io/hostname"


def find_local_data(snapshot: Snapshot) -> Iterator[LocalData]:
    """Yield pods that a drain refuses without a flag, that lose local data, or that can only return to their node."""
    for pod in snapshot.all(Pod):
        if not pod.spec.node_name or has_ended(pod) or _MIRROR in pod.metadata.annotations:
            continue
        owner = controller_of(pod.metadata)
        if owner is not None and owner.kind == "DaemonSet":
            continue
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        node = pod.spec.node_name
        drain = f"kubectl drain {node} --ignore-daemonsets"
        if owner is None:
            yield LocalData(name, node, "no controller makes it again: it is lost", f"{drain} --force")
        for volume in pod.spec.volumes:
            if volume.empty_dir is not None and volume.empty_dir.medium != "Memory":
                problem = f"its emptyDir volume {volume.name} is deleted"
                yield LocalData(name, node, problem, f"{drain} --delete-emptydir-data")
            elif volume.host_path is not None:
                problem = f"its hostPath volume {volume.name} ({volume.host_path.path}) stays on the node"
                yield LocalData(name, node, problem)
            elif volume.persistent_volume_claim is not None and (
                claim := snapshot.find(
                    PersistentVolumeClaim, pod.metadata.namespace, volume.persistent_volume_claim.claim_name
                )
            ):
                held = snapshot.find(PersistentVolume, "", claim.spec.volume_name)
                if held is not None and _is_local(held):
                    problem = f"its volume {held.metadata.name} is on this node only: the pod waits for its return"
                    yield LocalData(name, node, problem)


def _is_local(volume: PersistentVolume) -> bool:
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else []
    return any(each.key == _HOSTNAME for term in terms for each in term.match_expressions)


def find_kubelet_skew(nodes: Iterable[Node], crossing: Crossing) -> Iterator[Skew]:
    """Yield kubelet versions that the API server of a release on the way does not support."""
    by_version: dict[str, list[str]] = {}
    for node in nodes:
        by_version.setdefault(node.status.node_info.kubelet_version, []).append(node.metadata.name)
    for release in crossing.releases:
        step = Crossing.between(str(crossing.start), release)
        for version, names in sorted(by_version.items()):
            if problem := step.kubelet_skew(version):
                is_newer = not step.has_begun(version.partition("-")[0].partition("+")[0])
                yield Skew(release, version, problem, tuple(names), is_newer)
