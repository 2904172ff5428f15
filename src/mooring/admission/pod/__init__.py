"""Admission of pods and of pod templates in workloads.

Start with ``strategy.py``; ``spec.py`` validates a PodSpec and shows the order of the rest. Workload kinds use it by
``admission/workload.py``.
"""
