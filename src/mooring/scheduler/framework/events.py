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
    """A change of the taints or of `spec.unschedulable`."""
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    """A reduction of the resources that a pod requests."""
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE_OTHER = auto()
    """An update of any other field, or of any other kind of object."""
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
    """The kind of object that an event is about; the values are kube-scheduler's names in metrics."""

    ASSIGNED_POD = "AssignedPod"
    """A pod that is bound to a node."""
    TARGET_POD = "TargetPod"
    """The rejected pod itself."""
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
    """An event of the cluster: how objects of one kind change (a registered event may include several changes)."""

    kind: Kind
    action: Action

    def covers(self, other: "ClusterEvent") -> bool:
        """Return whether this registered event includes `other`, an event that occurred."""
        same = self.kind in (other.kind, Kind.WILDCARD) or other.kind is Kind.WILDCARD
        return same and bool(self.action & other.action)


class QueueingHint(Enum):
    QUEUE = "Queue"
    """The event may make the pod schedulable."""
    SKIP = "QueueSkip"
    """The event does not make the pod schedulable."""

    @classmethod
    def of(cls, helps: bool) -> "QueueingHint":
        return cls.QUEUE if helps else cls.SKIP


HintFunction = Callable[[Pod, Any, Any], QueueingHint]
"""A function of the rejected pod and of the object before (None if added) and after (None if deleted) an event."""


AboutFunction = Callable[[Any, Any], str | None]
"""A function of the object before (None if added) and after (None if deleted) an event."""


class EventWithHint(msgspec.Struct, frozen=True):
    """An event that may make pods schedulable that a plugin rejected, with its queueing hint."""

    event: ClusterEvent
    hint: HintFunction | None = None
    """The queueing hint function; without one, the event wakes every pod that the plugin rejected."""
    about: AboutFunction | None = None
    """Return the key of the object if the event can help only pods that refer to it (`refers_to`); None if it may help
    any pod.

    It saves calls of the hint for all other pods.
    """


def wake_on(
    kind: Kind, action: Action, hint: HintFunction | None = None, about: AboutFunction | None = None
) -> EventWithHint:
    """Return the registration of an event that may make rejected pods schedulable."""
    return EventWithHint(ClusterEvent(kind, action), hint, about)
