"""Reconcile loops, one file each.

| Module | What is there |
|---|---|
| ``controller.py`` | `Controller`: informers, a rate-limited queue and workers; `Context`: what they share |
| ``registry.py`` | `CONTROLLERS`: every controller by name |
| ``run.py``, ``options.py`` | a chosen set of them, run together, with leader election |
| ``workloads/`` | ReplicaSet, Deployment, StatefulSet, DaemonSet, Job and CronJob |

Read next: ``controller.py``.
"""
