"""The strategies of all kinds, by the struct of the kind. ``pipeline.py`` looks here; a new kind adds its file here."""

from typing import Any

from mooring.admission import (
    configuration,
    cron_job,
    daemon_set,
    deployment,
    job,
    namespace,
    node,
    persistent_volume,
    persistent_volume_claim,
    replica_set,
    stateful_set,
)
from mooring.admission.dra import claim, device_class, taints
from mooring.admission.dra import slice as slice_
from mooring.admission.pod.strategy import PodStrategy
from mooring.admission.strategy import Strategy
from mooring.api import meta_v1

_BY_TYPE: dict[type[meta_v1.Resource], Strategy[Any]] = {}


def register(*strategies: Strategy[Any]) -> None:
    """Add strategies. A kind that is there already is replaced: tests bring their own."""
    _BY_TYPE.update({strategy.object_type: strategy for strategy in strategies})


def strategy_of(object_type: type[meta_v1.Resource]) -> Strategy[Any]:
    """The strategy of a kind; KeyError for a kind that is not stored."""
    return _BY_TYPE[object_type]


register(PodStrategy())
for _family in (
    namespace,
    node,
    configuration,
    persistent_volume,
    persistent_volume_claim,
    deployment,
    replica_set,
    stateful_set,
    daemon_set,
    job,
    cron_job,
    claim,
    slice_,
    device_class,
    taints,
):
    register(*_family.STRATEGIES)
