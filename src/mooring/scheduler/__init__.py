"""The scheduler: a queue of pods, a scheduling cycle, and plugins that filter and score nodes kept in columns.

    running/                     the live scheduler: informers, attempts, binding, events, metrics
    facade                       the names that advice (`mooring explain`, `mooring simulate`) imports
    deciding/, queue/, plugins/  the decisions: which node for a pod, which pod next, by which rules
    volumes/, dra/               volumes and devices, for the plugins that handle them
    framework/                   the plugin API (start at ``framework/plugins.py``)
    columns/                     the state of the cluster as arrays over nodes

A package imports only from the packages below it in this list; `lint-imports` checks this.
Start at ``running/cycle.py``.
"""
