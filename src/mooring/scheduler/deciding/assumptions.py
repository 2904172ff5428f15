"""Assumed pods: those that have been given a node which the API server has not confirmed yet.

The columns reckon with them from the moment a node was chosen, so that the next pod does not take the same room. An
assumption ends in one of three ways: an informer shows the pod on a node (ours or, if somebody else was faster,
another), the pod is deleted, or binding fails and the room is given back.
"""

import msgspec

from mooring.api.core_v1 import Pod
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.deciding.profiles import Profile
from mooring.scheduler.framework import CycleState, GroupBindPlugin
from mooring.scheduler.queue import QueuedPod


class AssumedPod(msgspec.Struct, eq=False):
    """A pod on its way to a node, with what the plugins after filtering need."""

    queued: QueuedPod
    pod: Pod
    node: str
    profile: Profile
    cycle: CycleState
    begun: float
    """When the attempt began, monotonic."""
    binder: GroupBindPlugin | None = None
    """Who binds it in a group, since it was handed over."""
    submitted: float = 0.0
    """When it was handed over to be bound in a group."""

    @property
    def key(self) -> str:
        return self.queued.key


class Assumptions:
    """All assumed pods, by key."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pods: dict[str, AssumedPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: str) -> AssumedPod | None:
        return self._pods.get(key)

    def assume(self, assumed: AssumedPod) -> None:
        self._engine.assume(assumed.pod, assumed.node)
        self._pods[assumed.key] = assumed

    def end(self, key: str) -> AssumedPod | None:
        """Somebody who knows better has told the columns, or is about to."""
        return self._pods.pop(key, None)

    def forget(self, assumed: AssumedPod) -> bool:
        """Give the room back, unless the assumption has ended already; whether it had not."""
        if self._pods.get(assumed.key) is not assumed:
            return False
        del self._pods[assumed.key]
        self._engine.forget(assumed.pod)
        return True
