"""Horizontal pod autoscaling.

| Module | Content |
|---|---|
| ``horizontal.py`` | `HorizontalAutoscaler`: the controller |
| ``proposals.py`` | metric values, from annotations or a metrics API, and the number of pods that they require |
| ``pace.py`` | limits on scaling up and down |

Read next: ``horizontal.py``.
"""
