"""Where a pod should go as things are, without any I/O.

    attempt           the steps of an attempt, for the live scheduler and for simulations alike
    assumptions       pods that have a node, and are not bound yet
    engine            what is kept for pods that look alike: `Engine.schedule`
    profiles, plan    the policy: which plugins there are, and how each is asked
    evaluation        filters, then points, then the sum, by `filtering` and `scoring`
    diagnosis, refusals                why no node will do
    preemption, dry_run, harms, disruptions   who could make room
    changes           what can happen in a cluster, in the words of events
    asking            more questions to the engine, for those who explain

Start at ``attempt.py``. The parts of the policy are `scheduler/plugins/`; what is known is `scheduler/columns/`.
"""
