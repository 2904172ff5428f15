"""Controllers: reconcile loops, one file each, on the base in ``controller.py``; ``run.py`` lists them by name.

Packages: ``workloads/``, ``autoscaling/``, ``simulated_nodes/`` (nodes without machines, and their pods) and
``programs/`` (local programs for containers of simulated nodes).
"""
