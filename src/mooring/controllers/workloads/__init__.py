"""The controllers that make pods of templates.

| Module | What is there |
|---|---|
| ``workload.py`` | `Workload`: what they have in common |
| ``ownership.py`` | which objects belong to a workload: adoption and release |
| ``expectations.py`` | whether caches show what was written |
| ``pod_control.py``, ``pod_states.py`` | making and deleting pods; the states of pods |
| ``refusals.py`` | backing off when the server refuses what a template makes |
| ``replicas.py``, ``replica_set.py``, ``replication_controller.py`` | ReplicaSet and ReplicationController |
| ``deployment.py``, ``deployment_replica_sets.py``, ``deployment_pace.py``, ``deployment_status.py`` | Deployment |
| ``revisions.py`` | the templates that StatefulSets and DaemonSets have had |
| ``stateful_set.py``, ``stateful_pods.py`` | StatefulSet |
| ``daemon_set.py``, ``daemon_nodes.py`` | DaemonSet |
| ``job.py``, ``job_tally.py``, ``job_pods.py``, ``job_policies.py``, ``job_indexes.py``, ``job_ttl.py`` | Job |
| ``cron_job.py``, ``cron_times.py`` | CronJob |

Read next: ``workload.py``, then ``replicas.py``.
"""
