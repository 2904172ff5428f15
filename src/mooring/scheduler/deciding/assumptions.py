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
    """Monotonic time at which the scheduling attempt began."""
    binder: GroupBindPlugin | None = None
    """The plugin to which the pod was submitted for binding in a batch; None before that."""
    submitted: float = 0.0
    """Monotonic time at which the pod was submitted for binding."""

    @property
    def key(self) -> str:
        return self.queued.key


class Assumptions:
    """All assumed pods, by pod key: placed in the columns before the API server confirms the binding."""

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
        """Stop treating a pod as assumed, but leave it in the columns: an informer has shown it on a node or will."""
        return self._pods.pop(key, None)

    def forget(self, assumed: AssumedPod) -> bool:
        """Remove an assumed pod from its node; return False if it was no longer assumed."""
        if self._pods.get(assumed.key) is not assumed:
            return False
        del self._pods[assumed.key]
        self._engine.forget(assumed.pod)
        return True
