"""What a node may do: read what concerns its own pods, and write itself and their status, by Kubernetes' rules.

    authorizer.py    the Node authorizer: decides by the request alone, asks RBAC about what it does not allow
    node_pods.py     which pods are on which node, and what they refer to
    references.py    the secrets, config maps, claims and accounts that a pod or a volume names
    restriction.py   NodeRestriction: looks at the objects that a node is about to write

Read next: ``authorizer.py``.
"""
