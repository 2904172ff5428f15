"""The scheduler: a queue, a cycle and plugins over columns.

    runtime, cycle, queue/, …       who works: informers, attempts, binding, events, metrics (start at ``cycle.py``)
    engine                          who decides: where a pod should go as things are, without any I/O
    plan, evaluation, filtering, scoring, diagnosis, nominations, preemption      how it decides
    profiles, plugins/, framework/  the policy, its parts, and what a part may be (start at ``framework/plugins.py``)
    columns/                        what is known: the cluster as arrays over nodes
    volumes/, dra/                  what the plugins for volumes and devices need

Each imports only from those below it.
"""
