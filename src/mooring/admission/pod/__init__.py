"""Admission of pods and of the pod templates inside workloads.

``strategy.py`` puts the parts together and is where to begin; ``spec.py`` validates a PodSpec top to bottom and shows
the order of the rest. Workload kinds use ``template.py`` and nothing else of this package.
"""
