"""An engine that can also return every plugin's rejection of a node, for `mooring explain`.

With `cluster.trial`, one engine answers any number of what-if questions about a large cluster. Called by
``advisor/explain/``.
"""

import numpy as np

from mooring.api.core_v1 import Pod
from mooring.scheduler.deciding.diagnosis import Diagnosis, diagnose
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.deciding.filter_vectors import FilterVector
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation
from mooring.scheduler.framework import SUCCESS, Status, unresolvable
from mooring.scheduler.framework.status import first_rejection
from mooring.scheduler.framework.verdicts import status_of


class ExplainEngine(Engine):
    def reseed(self, seed: int) -> None:
        """Reset the random generator that chooses among equal scores, so that repeated evaluations agree."""
        self._random.seed(seed)

    def evaluate_pod(self, pod: Pod, *, needs_points: bool = False) -> tuple[PodEvaluation, Diagnosis]:
        """Evaluate a pod on all nodes; return the evaluation and the diagnosis."""
        evaluation = self._evaluate(self.profile_of(pod), pod, needs_points=needs_points)
        return evaluation, diagnose(evaluation, self.cluster)

    def before_queue(self, pod: Pod) -> Status:
        """Return the status that the PreEnqueue plugins give a pod."""
        plugins = self.profile_of(pod).pre_enqueue
        return first_rejection(plugin.pre_enqueue(pod).by(getattr(plugin, "name", "")) for plugin in plugins)

    def refusals_on(self, pod: Pod, node: str) -> tuple[list[Status], bool]:
        """Return all rejections of a node in the profile's order, and whether the first rules out all nodes."""
        early = self.before_queue(pod)
        if not early.is_success:
            return [early], True
        row = self.cluster.row_of[node]
        info = self.cluster.info(pod)
        evaluation = self._evaluators[self.profile_of(pod).name].evaluate_on(info, row, ())
        if evaluation.refusal is not None:
            return [evaluation.refusal], True
        if not evaluation.considered[row]:
            plugin = evaluation.naming[0]
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(evaluation.naming)}]"
            return [unresolvable(reason).by(plugin)], False
        return [status for slot in evaluation.filters if not (status := _status(slot, row)).is_success], False


def _status(slot: FilterVector, row: int) -> Status:
    verdicts = slot.verdicts(np.array([row], np.intp))
    if verdicts is None:
        return SUCCESS
    if isinstance(verdicts, Status):
        return verdicts.by(slot.name)
    code = int(verdicts.codes[0])
    return status_of(code, verdicts.reasons, slot.name) if code else SUCCESS
