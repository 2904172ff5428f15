"""Find the nodes for which volumes can be provisioned, for claims without a suitable existing volume.

The StorageClass must allow the node's topology. If the CSIDriver enables capacity tracking, a CSIStorageCapacity whose
topology selects the node must report enough capacity. Evaluated for all node rows at once.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api import label_selector
from mooring.api.core_v1 import NodeSelectorRequirement, PersistentVolumeClaim
from mooring.api.quantity import Quantity
from mooring.api.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass, TopologySelectorTerm
from mooring.constraints import node_selector
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import Mask
from mooring.scheduler.volumes.claims import STORAGE, class_of

NO_PROVISIONER = "kubernetes.io/no-provisioner"
UNKNOWN = -1
"""The capacity where it was not checked."""
_PLAIN = ConstraintOptions(numeric_tolerations=False, semver_operators=False, cel=False)


class Provision(msgspec.Struct):
    """A claim for which a volume would be provisioned, and the node rows where that is possible."""

    claim: PersistentVolumeClaim
    possible: Mask
    """By node row, whether the StorageClass allows the topology."""
    sufficient: Mask
    """By node row, whether the driver has enough capacity."""
    capacity: NDArray[np.int64]
    """By node row, the reported capacity that was found sufficient; or `UNKNOWN`."""
    rows: Mask = msgspec.field(default_factory=lambda: np.empty(0, np.bool_))
    """The node rows on which the volume would be provisioned, because no existing one matches."""


class ProvisioningError(ValueError):
    """The StorageClass of a claim cannot be used at all; the message is Kubernetes'."""


def find_provisioning_nodes(claim: PersistentVolumeClaim, cluster: Cluster) -> Provision:
    """Return on which node rows a volume for the claim can be provisioned. Raise ProvisioningError."""
    class_name = class_of(claim)
    key = f"{claim.metadata.namespace}/{claim.metadata.name}"
    if not class_name:
        raise ProvisioningError(f'no class for claim "{key}"')
    storage_class = cluster.objects(StorageClass).get(class_name)
    if storage_class is None:
        raise ProvisioningError(f'failed to find storage class "{class_name}"')
    everywhere, nowhere = np.ones(cluster.capacity, np.bool_), np.zeros(cluster.capacity, np.bool_)
    capacity = np.full(cluster.capacity, UNKNOWN, np.int64)
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return Provision(claim, nowhere, everywhere, capacity)
    possible = _topology_mask(storage_class, cluster)
    wanted = claim.spec.resources.requests.get(STORAGE)
    driver = cluster.objects(CSIDriver).get(storage_class.provisioner)
    if wanted is None or driver is None or not driver.spec.storage_capacity:
        return Provision(claim, possible, everywhere, capacity)
    return Provision(claim, possible, _find_capacity(class_name, wanted, cluster, capacity), capacity)


def _topology_mask(storage_class: StorageClass, cluster: Cluster) -> Mask:
    if not storage_class.allowed_topologies:
        return np.ones(cluster.capacity, np.bool_)
    found: Mask = np.logical_or.reduce([_term_mask(term, cluster) for term in storage_class.allowed_topologies])
    return found


def _term_mask(term: TopologySelectorTerm, cluster: Cluster) -> Mask:
    masks: list[Mask] = []
    for entry in term.match_label_expressions:
        source = NodeSelectorRequirement(key=entry.key, operator="In", values=entry.values)
        condition = node_selector.compile_requirement(source, _PLAIN)
        if condition is not None:
            masks.append(cluster.labels.mask(condition))
    if not masks or len(masks) < len(term.match_label_expressions):
        return np.zeros(cluster.capacity, np.bool_)
    found: Mask = np.logical_and.reduce(masks)
    return found


def _find_capacity(class_name: str, wanted: Quantity, cluster: Cluster, capacity: NDArray[np.int64]) -> Mask:
    sufficient = np.zeros(cluster.capacity, np.bool_)
    size = wanted.value()
    by_key = cluster.objects(CSIStorageCapacity)
    for key in sorted(by_key):
        entry = by_key[key]
        limit = volume_limit(entry)
        if entry.storage_class_name != class_name or limit is None or limit.value() < size:
            continue
        found = _access_mask(entry, cluster) & ~sufficient
        sufficient |= found
        if entry.capacity is not None:
            capacity[found] = entry.capacity.value()
    return sufficient


def volume_limit(entry: CSIStorageCapacity) -> Quantity | None:
    """Return the largest volume size: the driver's limit, or else its free capacity; None if it reports neither."""
    return entry.maximum_volume_size if entry.maximum_volume_size is not None else entry.capacity


def _access_mask(entry: CSIStorageCapacity, cluster: Cluster) -> Mask:
    try:
        selector = label_selector.from_label_selector(entry.node_topology)
    except label_selector.SelectorError:
        return np.zeros(cluster.capacity, np.bool_)
    if not selector.selectable:
        return np.zeros(cluster.capacity, np.bool_)
    masks = [cluster.labels.mask(condition) for condition in selector.requirements]
    return np.logical_and.reduce(masks) if masks else np.ones(cluster.capacity, np.bool_)
