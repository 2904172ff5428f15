"""Explain why a pod does not exist, has no node or does not run, and find the smallest changes that would help.

    explanation = explain(snapshot, pod)          # a pod or a workload
    explanation.summary                           # no node has the label `disktyp`; did you mean …
    explanation.suggestions[0].changes[0].command # kubectl patch …
    overview(snapshot).groups                     # everything that does not run, by cause

| Module | Content |
|---|---|
| ``explanation.py``, ``overview.py`` | `explain` one pod or workload; group everything that does not run |
| ``subject.py`` | the pod or workload, and the object to change |
| ``causes/`` | every cause, as a sentence |
| ``view.py`` | the fields of a pod and a node that make a plugin reject the node |
| ``reasons.py``, ``wording.py`` | rejections of single nodes, as text |
| ``storage.py``, ``devices.py`` | claims, volumes and devices: the same, for both |
| ``remedies/``, ``labels.py``, ``images.py`` | changes that may help |
| ``checks.py`` | steps to check by hand, where no change is known to help |
| ``search.py``, ``rehearsal.py`` | try changes for one pod on the engine, and for the workload in a simulation |
| ``results.py``, ``text.py`` | the result for programs and for people |
"""

from mooring.advisor.explain.explanation import KINDS, explain, load_engine
from mooring.advisor.explain.overview import Overview, overview
from mooring.advisor.explain.results import SchedulingExplanation
from mooring.advisor.explain.subject import NotThereError, Subject, find_subject, read_subject

__all__ = [
    "KINDS",
    "NotThereError",
    "Overview",
    "SchedulingExplanation",
    "Subject",
    "explain",
    "find_subject",
    "load_engine",
    "overview",
    "read_subject",
]
