"""The strategies of all kinds, by struct type. A new kind adds its file here."""

from typing import Any

from mooring.admission import (
    api_services,
    autoscaler,
    certificate_signing,
    certificates,
    configuration,
    cron_job,
    daemon_set,
    deployment,
    disruption,
    endpoints,
    event,
    flow_control,
    ingress,
    job,
    lease,
    namespace,
    network_policy,
    node,
    persistent_volume,
    persistent_volume_claim,
    priority_class,
    quota,
    rbac,
    replica_set,
    reviews,
    runtime_class,
    service,
    service_cidr,
    stateful_set,
    storage,
    storage_migration,
    trust_bundles,
    webhook_configurations,
)
from mooring.admission.definitions import strategy as definitions
from mooring.admission.dra import claim, device_class, taints
from mooring.admission.dra import slice as slices
from mooring.admission.pod.strategy import PodStrategy
from mooring.admission.policy import strategy as policies
from mooring.admission.strategy import Strategy
from mooring.api import meta_v1

_BY_TYPE: dict[type[meta_v1.Resource], Strategy[Any]] = {}


def register(*strategies: Strategy[Any]) -> None:
    """Add strategies; existing ones are replaced."""
    _BY_TYPE.update({strategy.object_type: strategy for strategy in strategies})


def unregister(object_type: type[meta_v1.Resource]) -> None:
    """Remove the strategy of a custom kind."""
    _BY_TYPE.pop(object_type, None)


def strategy_of(object_type: type[meta_v1.Resource]) -> Strategy[Any]:
    """Return the strategy of a kind; raise KeyError if there is none."""
    return _BY_TYPE[object_type]


register(
    PodStrategy(),
    *namespace.STRATEGIES,
    *node.STRATEGIES,
    *configuration.STRATEGIES,
    *service.STRATEGIES,
    *service_cidr.STRATEGIES,
    *endpoints.STRATEGIES,
    *ingress.STRATEGIES,
    *network_policy.STRATEGIES,
    *runtime_class.STRATEGIES,
    *autoscaler.STRATEGIES,
    *certificate_signing.STRATEGIES,
    *certificates.STRATEGIES,
    *trust_bundles.STRATEGIES,
    *api_services.STRATEGIES,
    *storage_migration.STRATEGIES,
    *event.STRATEGIES,
    *flow_control.STRATEGIES,
    *quota.STRATEGIES,
    *persistent_volume.STRATEGIES,
    *persistent_volume_claim.STRATEGIES,
    *storage.STRATEGIES,
    *deployment.STRATEGIES,
    *replica_set.STRATEGIES,
    *stateful_set.STRATEGIES,
    *daemon_set.STRATEGIES,
    *job.STRATEGIES,
    *cron_job.STRATEGIES,
    *disruption.STRATEGIES,
    *priority_class.STRATEGIES,
    *claim.STRATEGIES,
    *slices.STRATEGIES,
    *device_class.STRATEGIES,
    *taints.STRATEGIES,
    *lease.STRATEGIES,
    *rbac.STRATEGIES,
    *reviews.STRATEGIES,
    *definitions.STRATEGIES,
    *policies.STRATEGIES,
    *webhook_configurations.STRATEGIES,
)
