"""Horizontal pod autoscaling.

| Module | Content |
|---|---|
| ``horizontal.py`` | `HorizontalAutoscaler`: the controller |
| ``measures.py`` | metric values, from annotations or a metrics API |
| ``proposals.py`` | the number of pods that a metric requires |
| ``statuses.py`` | metrics in status and events |
| ``pace.py`` | limits on scaling up and down |

Read next: ``horizontal.py``.
"""
