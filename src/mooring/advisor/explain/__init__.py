"""Why a pod is pending, or where it is, and the smallest changes that would help: `mooring explain` as a function.

    explanation = explain(snapshot, pod)                       # a pod, or a workload for the pod of its template
    explanation.refusals[0].detail                             # taint sla=940:NoSchedule is not tolerated: `Gt 950` …
    explanation.suggestions[0].changes[0].command              # kubectl patch …

| Module | What is there |
|---|---|
| ``explanation.py`` | `explain`: the whole of it |
| ``subject.py`` | whom it is about, and where changes belong |
| ``view.py``, ``storage.py``, ``devices.py`` | what stands between a pod and a node |
| ``reasons/`` | that, in words |
| ``remedies/``, ``labels.py`` | changes that may help |
| ``search.py``, ``asking.py`` | which of them do, tried on the engine |
| ``results.py``, ``text.py`` | what comes of it, for programs and for people |
"""

from mooring.advisor.explain.explanation import KINDS, explain, loaded
from mooring.advisor.explain.results import SchedulingExplanation
from mooring.advisor.explain.subject import NotThereError, Subject, find, from_file

__all__ = ["KINDS", "NotThereError", "SchedulingExplanation", "Subject", "explain", "find", "from_file", "loaded"]
