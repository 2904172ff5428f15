"""Cluster events and queueing hints: which changes may make a rejected pod schedulable.

A plugin that can reject a pod registers the events that may change its verdict (`events_to_register`), each with a
hint: a function of the rejected pod and the object before and after. The queue moves the pod only if the hint of a
plugin that rejected it returns `QUEUE`. Events are Kubernetes' own (resource, action).
"""

from collections.abc import Callable
from enum import Enum, Flag, auto
from typing import Any

import msgspec

from mooring.api.core_v1 import Pod


class Action(Flag):
    """The kind of a change of an object. Updates differ by the fields that changed."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    """The taints or `unschedulable`."""
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    """A pod asks for less than before."""
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE_OTHER = auto()
    """An update of anything else, or of any other kind of object."""
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class Kind(Enum):
    """The objects that events are about, by Kubernetes' names in its metrics."""

    ASSIGNED_POD = "AssignedPod"
    """A pod that has a node."""
    TARGET_POD = "TargetPod"
    """The refused pod itself."""
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    DEVICE_TAINT_RULE = "DeviceTaintRule"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    WILDCARD = "*"


class ClusterEvent(msgspec.Struct, frozen=True):
    """Something that happens to objects of a kind."""

    kind: Kind
    action: Action

    def covers(self, other: "ClusterEvent") -> bool:
        """Whether `other`, which happened, is one of those that this one means."""
        same = self.kind in (other.kind, Kind.WILDCARD) or other.kind is Kind.WILDCARD
        return same and bool(self.action & other.action)


class QueueingHint(Enum):
    QUEUE = "Queue"
    """The event may make the pod schedulable."""
    SKIP = "QueueSkip"
    """It does not."""

    @classmethod
    def of(cls, helps: bool) -> "QueueingHint":
        return cls.QUEUE if helps else cls.SKIP


HintFunction = Callable[[Pod, Any, Any], QueueingHint]
"""Of the refused pod and the object before (None when added) and after (None when deleted)."""


AboutFunction = Callable[[Any, Any], str | None]
"""Of the object before and after, as above."""


class EventWithHint(msgspec.Struct, frozen=True):
    """What may help the pods that a plugin has refused."""

    event: ClusterEvent
    hint: HintFunction | None = None
    """Without one, the event always wakes the pod."""
    about: AboutFunction | None = None
    """Spares the queue many hints: the key of the object if only pods that refer to it (`refers_to`) could be helped,
    None if any pod could."""
