"""The upgrade or downgrade steps as commands: first changes in the cluster, then the components, release by release,
with the point of no return.

Kubernetes has no downgrade tool: a kube-apiserver that can emulate the older release first does so, to write only what
the older one reads.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from mooring.advisor.audit.results import Command, ObjectReference, Step
from mooring.advisor.audit.steps import kubectl_command, patch_command, resource_name_of
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases.options import Crossing, emulation_flags
from mooring.advisor.releases.results import Effect, Finding

_PATCHED = frozenset({Effect.FIELD_LOST, Effect.FIELD_OFF})
_CHANGED = frozenset({Effect.VALUE_REFUSED, Effect.REFUSED, Effect.RULE_REFUSED, Effect.NEEDS_GATE, Effect.STUCK})
_NO_RETURN = "POINT OF NO RETURN"
_SNAPSHOT_OF_ETCD = Step(
    title="Keep a copy of etcd: the one way back that always works",
    commands=[Command(run="etcdctl snapshot save before.db && etcdutl snapshot status before.db")],
)


def build_steps(findings: Sequence[Finding], crossing: Crossing) -> list[Step]:
    """Return the steps of an upgrade or downgrade in order: preparations, then components."""
    if crossing.start == crossing.end:
        return []
    return [
        _SNAPSHOT_OF_ETCD,
        *preparation_steps(findings),
        *(_upgrade_steps(crossing) if crossing.goes_up else _downgrade_steps(crossing, findings)),
    ]


def preparation_steps(findings: Sequence[Finding]) -> list[Step]:
    """Return the steps before components are replaced: changes of manifests, clients and stored objects."""
    return [
        *_manifest_steps(findings),
        *_unblocking_steps(findings),
        *_object_steps(findings),
        *_unserved_steps(findings),
    ]


def _manifest_steps(findings: Iterable[Finding]) -> Iterator[Step]:
    wrong = [each for each in findings if each.object.file and not each.object.stored and each.level is Severity.ERROR]
    places = dict.fromkeys(f"{each.object.file}:{each.object.line}" for each in wrong)
    if places:
        commands = [
            Command(run=f"$EDITOR {shlex.quote(place)}", ready=False, why="see the findings") for place in places
        ]
        yield Step(title="Change the manifests that the other release does not take", commands=commands)


def _unblocking_steps(findings: Iterable[Finding]) -> Iterator[Step]:
    for effect, title in (
        (Effect.IN_THE_WAY, "Take out of the way what can stop the change"),
        (Effect.SKEW, "Bring kubelets within what the API server supports"),
        (Effect.MIGRATE_FIRST, "Write again what is stored in old versions of custom kinds"),
        (Effect.CLIENT, "Let clients write API versions that stay"),
    ):
        found = [each for each in findings if each.effect is effect]
        commands = [
            Command(run=_get_command(each.object), ready=False, why=each.message)
            for each in {(each.object, each.message): each for each in found}.values()
        ]
        if commands:
            yield Step(title=title, commands=commands)


def _object_steps(findings: Iterable[Finding]) -> Iterator[Step]:
    stored = [
        each for each in findings if each.object.stored and each.level is Severity.ERROR and not each.object.owner
    ]
    patches = [_remove_field_command(each) for each in stored if each.effect in _PATCHED and each.object.kind != "Pod"]
    if patches:
        yield Step(
            title="Take fields out of objects while you can still decide what to do without them",
            because="fields that are dropped silently are lost at the next write by any client",
            commands=patches,
        )
    changed = [each for each in stored if each.effect in _CHANGED]
    if changed:
        commands = [
            Command(run=kubectl_command("edit", each.object), ready=False, why=f"{each.field}: {each.message}")
            for each in changed
        ]
        yield Step(title="Change the objects that are refused", commands=commands)


def _unserved_steps(findings: Iterable[Finding]) -> Iterator[Step]:
    gone = dict.fromkeys(each.object for each in findings if each.effect is Effect.UNREACHABLE)
    if gone:
        commands = [
            Command(
                run=(
                    f"{kubectl_command('get', each)} -o yaml > {shlex.quote(each.name)}.yaml"
                    f" && {kubectl_command('delete', each)}"
                ),
                ready=False,
                why="no client can reach it afterwards",
            )
            for each in gone
        ]
        yield Step(title="Save and delete objects that no client can reach afterwards", commands=commands)


def _remove_field_command(finding: Finding) -> Command:
    pointer = "/" + re.sub(r"\[(\d+)\]", r"/\1", finding.field).replace("~", "~0").replace(".", "/")
    run = patch_command(finding.object, [{"op": "remove", "path": pointer}])
    gate = f" ({finding.gate})" if finding.gate else ""
    return Command(run=run, ready=False, why=f"decide what to do without it{gate} first")


def _upgrade_steps(crossing: Crossing) -> Iterator[Step]:
    now = str(crossing.start)
    for release in crossing.releases:
        emulated = Crossing.between(now, release).can_emulate
        plan, apply = f"kubeadm upgrade plan v{release}.0", f"kubeadm upgrade apply v{release}.0 --config kubeadm.yaml"
        why = "the new binary behaves as the old one until the line is taken out"
        yield Step(
            title=f"Control plane: {now} to {release}, API servers first, then controllers and schedulers",
            commands=[
                *([_add_emulation_flags_command(release, now, why)] if emulated else []),
                Command(run=plan),
                Command(run=apply),
            ],
            rollback=f"the binaries of {now}: nothing is stored yet that they cannot read"
            if emulated
            else f"the copy of etcd with the binaries of {now}; what is written in between is lost",
        )
        yield Step(
            title=f"Nodes to {release}, one after the other",
            commands=[_drain_command(f"for each node, to {release}")],
            rollback=f"the kubelet of {now}, after a drain of the node",
        )
        if emulated:
            yield Step(
                title=f"{_NO_RETURN} to {now}: let the API server behave as {release}",
                because=f"from here on it writes what {now} may not be able to read; so far, the old binary can return",
                commands=[Command(run=apply, ready=False, why="take the arguments out of kubeadm.yaml first")],
                rollback=f"emulate {now} again; the binaries of {now} only after an audit from {release} to {now}",
            )
        now = release


def _downgrade_steps(crossing: Crossing, findings: Iterable[Finding]) -> Iterator[Step]:
    now, end = str(crossing.start), str(crossing.end)
    if crossing.can_emulate:
        yield Step(
            title=f"Let the API server of {now} behave as {end}, and see that all is well",
            because=f"the binary stays {now}, and taking the flag out is the way back",
            commands=[
                _add_emulation_flags_command(now, end, f"nothing is written that {end} cannot read"),
                Command(run="kubeadm init phase control-plane apiserver --config kubeadm.yaml"),
                Command(run="kubectl get --raw /version", why=f'it says "emulationMinor": "{crossing.end.minor}"'),
            ],
            rollback="take the flags out",
        )
    unreadable = (each.object for each in findings if each.effect is Effect.UNREADABLE)
    rewritten = [
        Command(run=f"kubectl get {resource} -A -o json | kubectl replace -f -", why="each is stored again")
        for resource in dict.fromkeys(resource_name_of(each.kind, each.api_version) for each in unreadable)
    ]
    if rewritten:
        yield Step(title=f"Write again what {end} cannot read", commands=rewritten)
    yield Step(
        title=f"Nodes, schedulers and controllers to {end}: none may be newer than its API server",
        commands=[_drain_command(f"for each node, to {end}")],
        rollback=f"the kubelets, schedulers and controllers of {now}",
    )
    commands = []
    for release in [end] if crossing.can_emulate else crossing.releases:
        run = f"sed -i 's/v{re.escape(now)}[.0-9]*/v{release}.0/' /etc/kubernetes/manifests/kube-apiserver.yaml"
        commands.append(Command(run=run, ready=False, why="kubeadm does not go down; the kubelet restarts static pods"))
        now = release
    yield Step(
        title=f"{_NO_RETURN}: API servers to the binary of {end}",
        because="fields that it does not know are dropped at the next write of each object",
        commands=commands,
        rollback=f"the binaries of {crossing.start} can return; fields that were dropped are only in the copy of etcd",
    )


def _add_emulation_flags_command(binary: str, version: str, why: str) -> Command:
    arguments = ", ".join(f"{{name: {flag}, value: '{version}'}}" for flag in emulation_flags(binary))
    line = f"apiServer: {{extraArgs: [{arguments}]}}"
    why = f"{why}; where the file has apiServer already, put the arguments there"
    return Command(run=f"echo {shlex.quote(line)} >> kubeadm.yaml", ready=False, why=why)


def _drain_command(why: str) -> Command:
    run = "kubectl drain NODE --ignore-daemonsets && ssh NODE systemctl restart kubelet && kubectl uncordon NODE"
    return Command(run=run, ready=False, why=f"{why}: install the kubelet before it is restarted")


def _get_command(reference: ObjectReference) -> str:
    if reference.api_version:
        return kubectl_command("get", reference)
    if reference.file:
        return f"grep -F {shlex.quote(reference.name)} {shlex.quote(reference.file)}"
    return "kubectl get --raw /metrics | grep apiserver_requested_deprecated_apis"
