"""Scaling workloads by what is measured.

| Module | What is there |
|---|---|
| ``horizontal.py`` | `HorizontalAutoscaler`: the controller |
| ``measures.py`` | what pods use, and other values: from annotations, or from a metrics API |
| ``proposals.py`` | how many pods a metric asks for |
| ``statuses.py`` | the words for metrics in status and events |
| ``pace.py`` | how fast a workload may grow and shrink |

Read next: ``horizontal.py``.
"""
