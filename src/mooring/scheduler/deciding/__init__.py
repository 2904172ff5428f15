"""Find a node for a pod, without I/O.

    attempt                   the steps of an attempt, live or simulated; pods that have a node and are not bound yet
    engine                    the cluster with its profiles: `Engine.schedule`
    evaluation                filters and scores for a pod, from cached vectors
    diagnosis                 why no node can take a pod
    preemption, dry_run       victims of lower priority

Start at ``attempt.py``. Plugins are in `scheduler/plugins/`, the cluster in `scheduler/columns/`.
"""
