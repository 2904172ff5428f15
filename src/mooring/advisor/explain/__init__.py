"""Explain why a pod does not exist, has no node or does not run, and the smallest changes that would help.

    explanation = explain(snapshot, pod)                       # a pod or a workload
    explanation.summary                                        # no node has the label `disktyp`; did you mean …
    explanation.suggestions[0].changes[0].command              # kubectl patch …
    overview(snapshot).groups                                  # everything that does not run, by cause

| Module | Content |
|---|---|
| ``explanation.py``, ``overview.py`` | `explain` one subject; group everything that does not run |
| ``subject.py`` | the pod or workload, and the object to change |
| ``causes/`` | every cause, in human words |
| ``view.py``, ``storage.py``, ``devices.py`` | what of a pod and a node makes a plugin refuse |
| ``reasons/`` | refusals of single nodes, in words |
| ``remedies/``, ``labels.py`` | changes that may help |
| ``search.py``, ``rehearsal.py`` | which of them do: tried for one pod on the engine, played for the workload |
| ``results.py``, ``text.py`` | the result for programs and for people |
"""

from mooring.advisor.explain.explanation import KINDS, explain, loaded
from mooring.advisor.explain.overview import Overview, overview
from mooring.advisor.explain.results import SchedulingExplanation
from mooring.advisor.explain.subject import NotThereError, Subject, find, from_file

__all__ = [
    "KINDS",
    "NotThereError",
    "Overview",
    "SchedulingExplanation",
    "Subject",
    "explain",
    "find",
    "from_file",
    "loaded",
    "overview",
]
