"""Node affinity that a scheduler's configuration adds to every pod (`addedAffinity`), looked at as if a pod had it.

Called by ``auditor.py``. No server refuses such a configuration: what its gate hides simply never matches (5500.14).
"""

from collections.abc import Iterator, Sequence

from mooring.advisor.audit.options import Options
from mooring.advisor.audit.results import BREAKING, Effect, Finding, ObjectReference
from mooring.advisor.audit.uses import Uses, value_at
from mooring.advisor.snapshot import Snapshot
from mooring.api import codec, core_v1
from mooring.api.core_v1 import Node
from mooring.constraints import node_selector
from mooring.scheduler.plugins import arguments
from mooring.scheduler.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from mooring.scheduler.profiles import ProfileSpec

_ARGUMENTS = "profiles[%d].pluginConfig[NodeAffinity].args.addedAffinity"
_IN_POD = "spec.affinity.nodeAffinity"


def findings(
    profiles: Sequence[ProfileSpec], file: str, snapshot: Snapshot, options: Options, uses: Uses
) -> Iterator[Finding]:
    """What the profiles use, and what it comes to."""
    for index, profile in enumerate(profiles):
        given = profile.arguments.get(NodeAffinity.name, {})
        added = arguments.read(NodeAffinity.name, given, NodeAffinityArgs).added_affinity
        if added is None:
            continue
        pod = core_v1.Pod(
            spec=core_v1.PodSpec(
                affinity=core_v1.Affinity(node_affinity=added), containers=[core_v1.Container(name="c", image="c")]
            )
        )
        pod.metadata.name = "added-affinity"
        nodes = snapshot.all(Node)
        before, after = (
            sum(
                node_selector.required_affinity(pod.spec, side.constraints).matches(n.metadata.labels, n.metadata.name)
                for n in nodes
            )
            for side in (options.now, options.then)
        )
        changed = {change.gate for change in options.changes if not change.enabled}
        reference = ObjectReference(
            api_version="kubescheduler.config.k8s.io/v1",
            kind="KubeSchedulerConfiguration",
            name=profile.scheduler_name,
            file=file,
            line=1,
            stored=False,
        )
        for use in uses.of(pod):
            effect, message = Effect.UNAFFECTED, ""
            if use.feature in changed:
                effect = Effect.NEVER_MATCHES if before and not after else Effect.KEPT
                message = f"{before} of {len(nodes)} nodes are left to all pods of the profile now, and then {after}"
            yield Finding(
                object=reference,
                field=use.field.replace(_IN_POD, _ARGUMENTS % index),
                value=value_at(codec.to_tree(pod), use.field),
                feature=use.feature,
                proposal=use.switch.proposal,
                needs=use.switch.needs,
                effect=effect,
                breaks=effect in BREAKING,
                message=message,
            )
