"""Why no node can take a pod, as PostFilter plugins are told: by node, and with the way to ask what would be if.

Made by ``engine.py``. Most plugins need only the statuses; ``preemption.py`` tries nodes with other pods on them.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from mooring.scheduler.deciding.diagnosis import Diagnosis
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation
from mooring.scheduler.framework import Status


class Rejection(Mapping[str, Status]):
    def __init__(self, evaluation: PodEvaluation, diagnosis: Diagnosis) -> None:
        self.evaluation = evaluation
        self.diagnosis = diagnosis

    @cached_property
    def _statuses(self) -> Mapping[str, Status]:
        return self.diagnosis.statuses()

    def __getitem__(self, node: str) -> Status:
        return self._statuses[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return len(self._statuses)
