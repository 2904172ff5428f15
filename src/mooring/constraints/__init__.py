"""Matching semantics that the API server, the scheduler, the controllers and the advisor share.

Everything here is a pure function of objects and `options.ConstraintOptions`. No user input makes it raise: invalid
constraints do not match (`admission` rejects them when they are written).

    options         which gated rules are on
    semver          versions and ranges            integers      the numbers of `Lt` and `Gt`
    expressions     CEL over a taint or a node     celenv/       its environments and Kubernetes' functions
    tolerations     against taints                 node_selector against nodes
    pod_affinity    which pods a term selects      requests      the resource requests of a pod
    disruption_budgets  which pods a PDB protects
    columns/        the same tolerations and node selectors, evaluated for all nodes at once
    lowering/       constraints rewritten in operators that upstream Kubernetes knows

Read next: `tolerations.py`, then `columns/__init__.py`.
"""
