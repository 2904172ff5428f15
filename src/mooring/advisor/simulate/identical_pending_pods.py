"""Group identical pending pods, so that only the first of each group is in the scheduling queue.

In an overloaded cluster nearly all attempts fail: whenever a pod is deleted, every pending pod is retried, as in
kube-scheduler. Pods with the same signature that were rejected at the same time are woken together, retried one after
the other and rejected together. So the first represents all, and a failed attempt costs the same for one pod and for
thousands. When the first gets a node, the next takes its place. Placements and their times equal those with every pod
in the queue (``tests/unit/advisor/test_waiting_in_lines.py``). ``scheduling.py`` reports results of attempts,
``world.py`` deletions.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from mooring.scheduler.facade import Profile, QueuedPod, SchedulingQueue

_LETS_PASS = frozenset({"SchedulingGates", "DynamicResources"})
"""Plugins that reject only pods with gates or claims, which are never grouped; they do not prevent groups."""


@dataclass(slots=True, eq=False)
class IdenticalPods:
    """A group of identical pending pods: the first is in the scheduling queue, the others follow it in order."""

    first: QueuedPod
    followers: OrderedDict[str, QueuedPod] = field(default_factory=OrderedDict)


class IdenticalPendingPods:
    """The groups of identical pending pods of a simulated cluster."""

    def __init__(self, queue: SchedulingQueue, profiles: Iterable[Profile]) -> None:
        self._queue = queue
        self._of: dict[str, IdenticalPods] = {}
        """The group of each pod, by pod key."""
        self._last: dict[Hashable, tuple[QueuedPod, str]] = {}
        """By equality key of pods, the pod that was rejected last, and the message. The pod may be deleted since."""
        gatekeepers = [plugin for profile in profiles for plugin in profile.pre_enqueue]
        self._are_formed = all(getattr(plugin, "name", "") in _LETS_PASS for plugin in gatekeepers)

    def first_in_group(self, key: str) -> str:
        """Return the key of the first pod of a pod's group, which alone is queued; its own key without a group."""
        line = self._of.get(key)
        return key if line is None else line.first.key

    def count_rejections(self) -> Counter[str]:
        """Return, by plugin name, how many pending pods the plugin rejected in their last attempt."""
        found: Counter[str] = Counter()
        for queued in self._queue.waiting():
            line = self._of.get(queued.key)
            number = 1 if line is None else 1 + len(line.followers)
            for plugin in queued.refused_by:
                found[plugin] += number
        return found

    def record_rejection(self, queued: QueuedPod, message: str) -> int:
        """Group a rejected pod with an identical one rejected before; return how many pods followed it in its group."""
        line = self._of.get(queued.key)
        number = 0 if line is None else len(line.followers)
        if self._are_formed and self._queue.waits_in_crowd(queued):
            last, words = self._last.get(queued.template_key, (queued, message))
            if last is not queued and words == message and self._are_identical(last, queued):
                self._merge_groups(last, queued)
            else:
                self._last[queued.template_key] = queued, message
        return number

    def _are_identical(self, last: QueuedPod, queued: QueuedPod) -> bool:
        queue, pod, other = self._queue, queued.pod.spec, last.pod.spec
        return (
            last.queued_at == queued.queued_at
            and queue.waits_in_crowd(last)
            and queue.backoff_of(last) == queue.backoff_of(queued)
            and queue.sort_key_of(last) == queue.sort_key_of(queued)
            and (last.profile, last.refused_by, last.waits_for) == (queued.profile, queued.refused_by, queued.waits_for)
            and (other.priority, other.preemption_policy) == (pod.priority, pod.preemption_policy)
        )

    def _merge_groups(self, last: QueuedPod, queued: QueuedPod) -> None:
        self._queue.delete(queued.pod)
        front = self._of.get(last.key) or IdenticalPods(last)
        back = self._of.get(queued.key) or IdenticalPods(queued)
        back.followers[queued.key] = queued
        back.followers.move_to_end(queued.key, last=False)
        if len(front.followers) >= len(back.followers):
            line, moved = front, list(back.followers)
            front.followers.update(back.followers)
        else:
            line, moved = back, list(front.followers)
            for key in reversed(moved):
                back.followers[key] = front.followers[key]
                back.followers.move_to_end(key, last=False)
        line.first = last
        self._of.update(dict.fromkeys((*moved, queued.key, last.key), line))

    def advance_group(self, queued: QueuedPod, queued_at: float, refusals: int) -> None:
        """Queue the next pod of a group in place of its first, with that pod's `queued_at` and number of rejections."""
        line = self._of.pop(queued.key, None)
        if line is not None:
            following = self._remove_first(line)
            following.queued_at, following.refusals = queued_at, refusals
            self._queue.put_first(following)

    def remove_pod(self, key: str) -> str:
        """Remove a deleted pod from its group; return the key of the pod queued in its place, empty if none."""
        line = self._of.pop(key, None)
        if line is not None and line.first.key == key:
            following = self._remove_first(line)
            self._queue.replace(key, following)
            return following.key
        if line is not None:
            del line.followers[key]
            if not line.followers:
                del self._of[line.first.key]
        return ""

    def _remove_first(self, line: IdenticalPods) -> QueuedPod:
        gone = line.first
        _, following = line.followers.popitem(last=False)
        following.queued_at, following.refusals = gone.queued_at, gone.refusals
        following.refused_by, following.waits_for = gone.refused_by, gone.waits_for
        line.first = following
        if not line.followers:
            del self._of[following.key]
        return following
