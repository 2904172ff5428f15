"""The scheduler at work: informers, attempts one after the other, binding, events, metrics.

    runtime           puts all of it together, and runs it (``options.py`` and ``config.py`` say with what)
    event_handlers    from the informers into the columns and the queue
    cycle, binding    a pod's attempt, from the queue to its node
    victims           deletes whom preemption has chosen
    reports, metrics, plugin_times    what others see of it

Only here are things written to the API, but for what plugins do in PreBind and Bind. Start at ``cycle.py``.
"""
