"""The difference between two runs of one scenario under two configurations."""

from mooring.advisor.simulate.results import Comparison, Elsewhere, Simulation
from mooring.base.natural import natural


def compare(one: Simulation, other: Simulation) -> Comparison:
    """What `other` does otherwise. Pods have the same names in both, because names do not depend on chance."""
    here, there = _places(one), _places(other)
    common = [pod for pod in here if pod in there]
    moved = [Elsewhere(pod=pod, node=here[pod], other_node=there[pod]) for pod in common if here[pod] != there[pod]]
    waiting, other_waiting = _waiting(one), _waiting(other)
    return Comparison(
        configuration=one.configuration,
        other_configuration=other.configuration,
        same=len(common) - len(moved),
        elsewhere=tuple(sorted(moved, key=lambda each: natural(each.pod))),
        only_here=tuple(sorted(here.keys() - there.keys(), key=natural)),
        only_there=tuple(sorted(there.keys() - here.keys(), key=natural)),
        only_pending_here=tuple(sorted(waiting - other_waiting, key=natural)),
        only_pending_there=tuple(sorted(other_waiting - waiting, key=natural)),
        counts=one.counts,
        other_counts=other.counts,
        after=one.utilisation.after,
        other_after=other.utilisation.after,
    )


def _places(result: Simulation) -> dict[str, str]:
    found = {placement.pod: placement.node for placement in result.placements}
    found.update((waiting.pod, "") for group in result.pending for waiting in group.pods)
    return found


def _waiting(result: Simulation) -> set[str]:
    return {waiting.pod for group in result.pending for waiting in group.pods}
