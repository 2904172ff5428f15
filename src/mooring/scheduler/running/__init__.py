"""The scheduler at work: informers, attempts one after the other, binding, events, metrics.

    runtime           puts all of it together, and runs it (``options.py`` and ``config.py`` say with what)
    event_handlers    from the informers into the columns and the queue
    cycle, binding    a pod's attempt, from the queue to its node
    victims           deletes the victims of preemption
    reports, metrics, plugin_times    events, conditions and metrics

Only these modules, and plugins in PreBind and Bind, write to the API. Start at ``cycle.py``.
"""
