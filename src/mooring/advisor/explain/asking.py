"""The scheduler's engine, asked for more than a verdict: every plugin's refusal of a node, and what would be if.

`trying` changes the engine's cluster for a while and takes everything back, so that one engine serves any number of
questions about a large cluster. Called by ``view.py`` and ``search.py``.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.scheduler.columns.cluster import object_key
from mooring.scheduler.diagnosis import Diagnosis, diagnose
from mooring.scheduler.engine import Engine
from mooring.scheduler.evaluation import Judgement
from mooring.scheduler.filtering import FilterSlot
from mooring.scheduler.framework import SUCCESS, Status, unresolvable
from mooring.scheduler.framework.status import first_rejection
from mooring.scheduler.framework.verdicts import status_of


class AskingEngine(Engine):
    def judged(self, pod: Pod, *, needs_points: bool = False) -> tuple[Judgement, Diagnosis]:
        """What the filters say about all nodes."""
        judgement = self._judge(self.profile_of(pod), pod, needs_points=needs_points)
        return judgement, diagnose(judgement, self.cluster)

    def before_queue(self, pod: Pod) -> Status:
        """What is said before any node is looked at."""
        plugins = self.profile_of(pod).pre_enqueue
        return first_rejection(plugin.pre_enqueue(pod).by(getattr(plugin, "name", "")) for plugin in plugins)

    def refusals_on(self, pod: Pod, node: str) -> tuple[list[Status], bool]:
        """Every plugin that refuses a node, in the order of the profile; whether the first refuses all nodes."""
        early = self.before_queue(pod)
        if not early.is_success:
            return [early], True
        row = self.cluster.row_of[node]
        info = self.cluster.info(pod)
        judgement = self._evaluation(self.profile_of(pod), info).judge_on(info, row, ())
        if judgement.refusal is not None:
            return [judgement.refusal], True
        if not judgement.considered[row]:
            plugin = judgement.naming[0]
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(judgement.naming)}]"
            return [unresolvable(reason).by(plugin)], False
        return [status for slot in judgement.filters if not (status := _status(slot, row)).is_success], False

    @contextmanager
    def trying(self, put: Iterable[Resource], remove: Iterable[Resource]) -> Iterator[None]:
        """Have objects in the cluster, or not, for a while."""
        undo: list[tuple[Resource | None, Resource]] = []
        try:
            for obj in remove:
                before = self._known(obj)
                if before is not None:
                    undo.append((before, before))
                    self.remove(before)
            for obj in put:
                undo.append((self._known(obj), obj))
                self.put(obj)
            yield
        finally:
            for before, after in reversed(undo):
                if before is None:
                    self.remove(after)
                else:
                    self.put(before)

    def _known(self, obj: Resource) -> Resource | None:
        """The object of the same name as it is in the cluster."""
        if isinstance(obj, Node):
            info = self.cluster.node(obj.metadata.name)
            return None if info is None else info.node
        if isinstance(obj, Pod):
            placed = self.cluster.placed(obj)
            return None if placed is None else placed.pod
        return self.cluster.objects(type(obj)).get(object_key(obj.metadata.namespace, obj.metadata.name))


def _status(slot: FilterSlot, row: int) -> Status:
    verdicts = slot.verdicts(np.array([row], np.intp))
    if verdicts is None:
        return SUCCESS
    if isinstance(verdicts, Status):
        return verdicts.by(slot.name)
    code = int(verdicts.codes[0])
    return status_of(code, verdicts.reasons, slot.name) if code else SUCCESS
