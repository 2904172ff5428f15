"""Pods that wait for the same since the same moment stand in one line, of which only the first is in the queue.

In a cluster with far more work than room nearly all attempts are in vain: whenever a pod leaves, whoever waits is tried
again, as kube-scheduler does. Pods of the same likeness that were refused at the same moment are woken together, come
to their turn one right after the other, and are refused together. So the first stands for all, and an attempt in vain
costs the same for one pod and for thousands. Once the first gets a node, the next takes its turn. Who gets which node
and when is the same as if each were in the queue by itself (``tests/unit/advisor/test_waiting_in_lines.py``).

``scheduling.py`` says what attempts came to, ``world.py`` who leaves.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from mooring.scheduler.facade import Profile, QueuedPod, SchedulingQueue

_LETS_PASS = frozenset({"SchedulingGates", "DynamicResources"})
"""Plugins that keep out only pods with gates and with claims, which stand in no line. Others may say what they like."""


@dataclass(slots=True, eq=False)
class Line:
    """The pods behind one that is in the queue, in their order."""

    first: QueuedPod
    behind: OrderedDict[str, QueuedPod] = field(default_factory=OrderedDict)


class Lines:
    def __init__(self, queue: SchedulingQueue, profiles: Iterable[Profile]) -> None:
        self._queue = queue
        self._of: dict[str, Line] = {}
        """By the key of each pod in it."""
        self._last: dict[Hashable, tuple[QueuedPod, str]] = {}
        """By likeness, the pod that was last refused, and with which words. It may have gone since."""
        gatekeepers = [plugin for profile in profiles for plugin in profile.pre_enqueue]
        self._are_formed = all(getattr(plugin, "name", "") in _LETS_PASS for plugin in gatekeepers)

    def first_of(self, key: str) -> str:
        """Who is in the queue for a pod: often the pod itself."""
        line = self._of.get(key)
        return key if line is None else line.first.key

    def refused_by(self) -> Counter[str]:
        """How many waiting pods each plugin has refused."""
        found: Counter[str] = Counter()
        for queued in self._queue.waiting():
            line = self._of.get(queued.key)
            number = 1 if line is None else 1 + len(line.behind)
            for plugin in queued.refused_by:
                found[plugin] += number
        return found

    def refused(self, queued: QueuedPod, message: str) -> int:
        """A pod was refused as all of its likeness would be, and waits again: so are those behind it. How many."""
        line = self._of.get(queued.key)
        number = 0 if line is None else len(line.behind)
        if self._are_formed and self._queue.waits_in_crowd(queued):
            last, words = self._last.get(queued.likeness, (queued, message))
            if last is not queued and words == message and self._are_one(last, queued):
                self._join(last, queued)
            else:
                self._last[queued.likeness] = queued, message
        return number

    def _are_one(self, last: QueuedPod, queued: QueuedPod) -> bool:
        """Whether two pods of the same likeness will come to their turns one right after the other."""
        queue, pod, other = self._queue, queued.pod.spec, last.pod.spec
        return (
            last.queued_at == queued.queued_at
            and queue.waits_in_crowd(last)
            and queue.backoff_of(last) == queue.backoff_of(queued)
            and queue.turn_of(last) == queue.turn_of(queued)
            and (last.profile, last.refused_by, last.waits_for) == (queued.profile, queued.refused_by, queued.waits_for)
            and (other.priority, other.preemption_policy) == (pod.priority, pod.preemption_policy)
        )

    def _join(self, last: QueuedPod, queued: QueuedPod) -> None:
        """Let a pod, and those behind it, stand behind another one and those behind that: the shorter line moves."""
        self._queue.delete(queued.pod)
        front = self._of.get(last.key) or Line(last)
        back = self._of.get(queued.key) or Line(queued)
        back.behind[queued.key] = queued
        back.behind.move_to_end(queued.key, last=False)
        if len(front.behind) >= len(back.behind):
            line, moved = front, list(back.behind)
            front.behind.update(back.behind)
        else:
            line, moved = back, list(front.behind)
            for key in reversed(moved):
                back.behind[key] = front.behind[key]
                back.behind.move_to_end(key, last=False)
        line.first = last
        self._of.update(dict.fromkeys((*moved, queued.key, last.key), line))

    def turned(self, queued: QueuedPod, queued_at: float, refusals: int) -> None:
        """A pod was tried, and not in vain, or those behind it need not fare like it: the next one takes its turn.

        That one has waited since `queued_at` and was refused so often, as the first one had before.
        """
        line = self._of.pop(queued.key, None)
        if line is not None:
            following = self._next(line)
            following.queued_at, following.refusals = queued_at, refusals
            self._queue.put_first(following)

    def leave(self, key: str) -> str:
        """A pod goes that may be in a line. The key of whoever takes its place in the queue, if anybody does."""
        line = self._of.pop(key, None)
        if line is not None and line.first.key == key:
            following = self._next(line)
            self._queue.replace(key, following)
            return following.key
        if line is not None:
            del line.behind[key]
            if not line.behind:
                del self._of[line.first.key]
        return ""

    def _next(self, line: Line) -> QueuedPod:
        """The first has gone: who is behind it is in its place."""
        gone = line.first
        _, following = line.behind.popitem(last=False)
        following.queued_at, following.refusals = gone.queued_at, gone.refusals
        following.refused_by, following.waits_for = gone.refused_by, gone.waits_for
        line.first = following
        if not line.behind:
            del self._of[following.key]
        return following
