"""What matches: the semantics that the API server, the scheduler, the controllers and the advisor share.

Everything here is a pure function of objects and `options.ConstraintOptions`; nothing here can be written wrongly by a
user so that it raises (what may be written is `admission`'s matter).

    options         which gated rules are on
    semver          versions and ranges            integers      the numbers of `Lt` and `Gt`
    expressions     CEL over a taint or a node     celenv/       its environments and Kubernetes' functions
    tolerations     against taints                 node_selector against nodes
    pod_affinity    which pods a term chooses      requests      how much of each resource a pod sets aside
    disruption_budgets  which pods must stay
    columns/        the same tolerations and node selectors, judged for all nodes at once
    lowering/       the same again in words of stock Kubernetes, for one node or for a cluster

Read next: `tolerations.py`, then `columns/__init__.py`.
"""
