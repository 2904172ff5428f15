"""Controllers that create pods from templates.

| Module | Content |
|---|---|
| ``workload.py`` | `Workload`: their base |
| ``ownership.py`` | adoption and release of objects; whether caches show what was written |
| ``pod_control.py``, ``pod_states.py`` | creating and deleting pods; the states of pods |
| ``replicas.py`` | ReplicaSet and ReplicationController |
| ``deployment.py``, ``deployment_replica_sets.py``, ``deployment_pace.py``, ``deployment_status.py`` | Deployment |
| ``revisions.py`` | ControllerRevisions of StatefulSets and DaemonSets |
| ``stateful_set.py``, ``stateful_pods.py`` | StatefulSet |
| ``daemon_set.py``, ``daemon_nodes.py`` | DaemonSet |
| ``job.py``, ``job_tally.py``, ``job_pods.py`` | Job |
| ``cron_job.py`` | CronJob |

Read next: ``workload.py``, then ``replicas.py``.
"""
