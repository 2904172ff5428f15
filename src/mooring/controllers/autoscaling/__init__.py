"""Horizontal pod autoscaling: the controller (``horizontal.py``), and the number of pods (``replica_counts.py``)."""
