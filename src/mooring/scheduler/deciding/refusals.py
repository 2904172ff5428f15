"""Why no node can take a pod, as PostFilter plugins are told: by node, and with the way to ask what would be if.

Made by ``engine.py``. Most plugins need only the statuses; ``preemption.py`` tries nodes with other pods on them.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from mooring.scheduler.deciding.diagnosis import Diagnosis
from mooring.scheduler.deciding.judgement import Judgement
from mooring.scheduler.framework import Status


class Refusals(Mapping[str, Status]):
    def __init__(self, judgement: Judgement, diagnosis: Diagnosis) -> None:
        self.judgement = judgement
        self.diagnosis = diagnosis

    @cached_property
    def _statuses(self) -> Mapping[str, Status]:
        """Made when somebody looks, because most plugins need not."""
        return self.diagnosis.statuses()

    def __getitem__(self, node: str) -> Status:
        return self._statuses[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return len(self._statuses)
