"""Controllers: reconcile loops, one file each.

| Module | Content |
|---|---|
| ``controller.py`` | `Controller`: informers, a rate-limited queue and workers; `Context`: the objects they share |
| ``run.py``, ``options.py`` | `CONTROLLERS`: every controller by name; a set of them as a component |
| ``workloads/`` | ReplicaSet, Deployment, StatefulSet, DaemonSet, Job and CronJob |
| ``taint_eviction.py`` | eviction by NoExecute taints |
| ``node_lifecycle.py`` | taints from conditions, unreachable nodes |
| ``simulated_nodes/`` | nodes without machines, and their pods |
| ``garbage_collector.py``, ``namespace.py``, ``expiry.py`` | garbage collection |
| ``persistent_volume_binder.py``, ``volume_protection.py`` | claims and volumes |
| ``resource_claim.py``, ``disruption.py``, ``endpoint_slice.py``, ``service_account.py`` | other objects of pods |

Read next: ``controller.py``.
"""
