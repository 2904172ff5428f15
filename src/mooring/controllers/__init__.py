"""Reconcile loops, one file each.

| Module | What is there |
|---|---|
| ``controller.py`` | `Controller`: informers, a rate-limited queue and workers; `Context`: what they share |
| ``registry.py`` | `CONTROLLERS`: every controller by name |
| ``run.py``, ``options.py`` | a chosen set of them, run together, with leader election |
| ``workloads/`` | ReplicaSet, Deployment, StatefulSet, DaemonSet, Job and CronJob |
| ``eviction.py``, ``taint_eviction.py``, ``device_taint_eviction.py`` | who has to leave, and when |
| ``node_lifecycle.py``, ``zone_disruption.py`` | taints from conditions, and nodes that have fallen silent |
| ``simulated_nodes/`` | nodes without machines, and what they do to pods |
| ``garbage_collector.py``, ``pod_garbage_collector.py``, ``namespace.py``, ``event_ttl.py`` | what goes with others |
| ``persistent_volume_binder.py``, ``volume_protection.py``, ``ephemeral_volume.py`` | claims and volumes |
| ``resource_claim.py``, ``disruption.py``, ``endpoint_slice.py``, ``service_account.py`` | what pods need |

Read next: ``controller.py``.
"""
