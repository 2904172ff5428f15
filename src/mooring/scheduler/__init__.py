"""The scheduler: a queue, a cycle and plugins over columns.

    running/                        who works: informers, attempts, binding, events, metrics (start at
    ``running/cycle.py``) facade                          what advice, which runs nothing, asks of the others deciding/,
    queue/, plugins/     who decides: where a pod should go, which pod is next, by which rules volumes/, dra/
    what the plugins for volumes and devices need framework/                      what a plugin may be (start at
    ``framework/plugins.py``) columns/                        what is known: the cluster as arrays over nodes

Each imports only from those below it, and `lint-imports` keeps it so.
"""
