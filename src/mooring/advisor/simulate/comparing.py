"""Compare two runs of one scenario under two configurations."""

from mooring.advisor.simulate.results import Comparison, MovedPod, Simulation
from mooring.base.natural_sort import natural_key


def compare(one: Simulation, other: Simulation) -> Comparison:
    """Return how `other` differs. Pods have the same names in both, because generated names are deterministic."""
    here, there = _places(one), _places(other)
    common = [pod for pod in here if pod in there]
    moved = [MovedPod(pod=pod, node=here[pod], other_node=there[pod]) for pod in common if here[pod] != there[pod]]
    waiting, other_waiting = _waiting(one), _waiting(other)
    return Comparison(
        configuration=one.configuration,
        other_configuration=other.configuration,
        same=len(common) - len(moved),
        elsewhere=tuple(sorted(moved, key=lambda each: natural_key(each.pod))),
        only_here=tuple(sorted(here.keys() - there.keys(), key=natural_key)),
        only_there=tuple(sorted(there.keys() - here.keys(), key=natural_key)),
        only_pending_here=tuple(sorted(waiting - other_waiting, key=natural_key)),
        only_pending_there=tuple(sorted(other_waiting - waiting, key=natural_key)),
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
