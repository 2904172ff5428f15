"""Assumed pods: pods with a node that the API server has not confirmed yet.

They are placed in the columns as soon as a node is chosen, so that the next pod does not get the same room. An
assumption ends when an informer shows the pod on a node, when the pod is deleted, or when binding fails.
"""

import msgspec

from mooring.api.core_v1 import Pod
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.deciding.profiles import Profile
from mooring.scheduler.framework import CycleState, GroupBindPlugin
from mooring.scheduler.queue import QueuedPod


class AssumedPod(msgspec.Struct, eq=False):
    """A pod assumed on a node, with the state that the Reserve, Permit and Bind plugins need."""

    queued: QueuedPod
    pod: Pod
    node: str
    profile: Profile
    cycle: CycleState
    begun: float
    """When the scheduling attempt began, on the monotonic clock."""
    binder: GroupBindPlugin | None = None
    """The plugin that binds it in a batch, once it was submitted to it."""
    submitted: float = 0.0
    """When it was submitted for binding, on the monotonic clock."""

    @property
    def key(self) -> str:
        return self.queued.key


class Assumptions:
    """All assumed pods, by pod key."""

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
        """End an assumption without removing the pod from the columns: an informer has shown it on a node or will."""
        return self._pods.pop(key, None)

    def forget(self, assumed: AssumedPod) -> bool:
        """Remove an assumed pod from its node; return False if the assumption had already ended."""
        if self._pods.get(assumed.key) is not assumed:
            return False
        del self._pods[assumed.key]
        self._engine.forget(assumed.pod)
        return True
