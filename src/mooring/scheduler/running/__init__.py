"""The live scheduler: informers, attempts, binding, events, metrics.

    runtime                        assembles and runs the scheduler (``options.py`` has its settings)
    event_handlers                 apply informer events to the columns and the queue
    cycle, binding                 a pod's attempt, from the queue to its node
    victims                        deletes the victims of preemption
    reports, metrics, plugin_times events, conditions and metrics

Only these modules, and plugins in PreBind and Bind, write to the API. Start at ``cycle.py``.
"""
