"""Node affinity that a scheduler's configuration adds to every pod (`addedAffinity`), looked at as if a pod had it.

Called by ``auditor.py``. No server refuses such a configuration: what its gate hides simply never matches (5500.14).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mooring.advisor.audit.options import Options, Side
from mooring.advisor.audit.results import BREAKING, Effect, Finding, ObjectReference
from mooring.advisor.audit.uses import Use, Uses, value_at
from mooring.advisor.snapshot import Snapshot
from mooring.api import codec, core_v1
from mooring.api.core_v1 import Node
from mooring.constraints import node_selector
from mooring.scheduler.facade import CONFIG_API_VERSION, CONFIG_KIND, ProfileSpec, added_affinity

_ARGUMENTS = "profiles[%d].pluginConfig[NodeAffinity].args.addedAffinity"
_IN_POD = "spec.affinity.nodeAffinity"


def findings(
    profiles: Sequence[ProfileSpec], file: str, snapshot: Snapshot, options: Options, uses: Uses
) -> Iterator[Finding]:
    """Yield the gated uses of the profiles, and their effects."""
    for index, profile in enumerate(profiles):
        added = added_affinity(profile)
        if added is None:
            continue
        reference = ObjectReference(
            api_version=CONFIG_API_VERSION,
            kind=CONFIG_KIND,
            name=profile.scheduler_name,
            file=file,
            line=1 if file else 0,
            stored=False,
        )
        pod = _pod_with(added)
        left = _nodes_left(pod, snapshot.all(Node), options)
        for use in uses.of(pod):
            effect, message = _effect(use, left, options)
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


def _pod_with(affinity: core_v1.NodeAffinity) -> core_v1.Pod:
    containers = [core_v1.Container(name="c", image="c")]
    return core_v1.Pod(spec=core_v1.PodSpec(affinity=core_v1.Affinity(node_affinity=affinity), containers=containers))


class _Left(NamedTuple):
    """How many nodes the affinity leaves."""

    before: int
    after: int
    nodes: int


def _nodes_left(pod: core_v1.Pod, nodes: Sequence[Node], options: Options) -> _Left:
    def left(side: Side) -> int:
        required = node_selector.required_affinity(pod.spec, side.constraints)
        return sum(required.matches(node.metadata.labels, node.metadata.name) for node in nodes)

    return _Left(left(options.now), left(options.then), len(nodes))


def _effect(use: Use, left: _Left, options: Options) -> tuple[Effect, str]:
    if not any(change.gate == use.feature and not change.enabled for change in options.changes):
        return Effect.UNAFFECTED, ""
    text = f"{left.before} of {left.nodes} nodes are left to all pods of the profile now, and then {left.after}"
    return (Effect.NEVER_MATCHES if left.before and not left.after else Effect.KEPT), text
