"""Read the feature gates on which plugins depend; every plugin gets the result in its `Handle`."""

import msgspec

from mooring.base import known_gates
from mooring.base.gates import FeatureGates
from mooring.constraints import options
from mooring.constraints.options import ConstraintOptions


class SchedulerFeatures(msgspec.Struct, frozen=True):
    """The feature gates that plugins depend on, as booleans."""

    constraints: ConstraintOptions = msgspec.field(default_factory=ConstraintOptions)
    spread_label_keys: bool = True
    """Whether `matchLabelKeys` of spread constraints has an effect."""
    spread_label_keys_merged: bool = True
    """Whether the API server merges `matchLabelKeys` into the selector, so that the scheduler must not do so again."""
    node_inclusion_policy: bool = True
    """Whether `nodeAffinityPolicy` and `nodeTaintsPolicy` of spread constraints have an effect."""
    pod_level_resources: bool = True
    storage_capacity_scoring: bool = True
    async_preemption: bool = True
    pop_from_backoff: bool = True
    node_declared_features: bool = True


def from_gates(gates: FeatureGates) -> SchedulerFeatures:
    return SchedulerFeatures(
        constraints=options.from_gates(gates),
        spread_label_keys=gates.enabled(known_gates.LABEL_KEYS_IN_SPREAD),
        spread_label_keys_merged=gates.enabled(known_gates.LABEL_KEYS_IN_SPREAD_MERGE),
        node_inclusion_policy=gates.enabled(known_gates.NODE_INCLUSION_POLICY),
        pod_level_resources=gates.enabled(known_gates.POD_LEVEL_RESOURCES),
        storage_capacity_scoring=gates.enabled(known_gates.STORAGE_CAPACITY_SCORING),
        async_preemption=gates.enabled(known_gates.ASYNC_PREEMPTION),
        pop_from_backoff=gates.enabled(known_gates.POP_FROM_BACKOFF),
        node_declared_features=gates.enabled(known_gates.NODE_DECLARED_FEATURES),
    )
