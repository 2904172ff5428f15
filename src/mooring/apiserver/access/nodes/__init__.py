"""Authorization of nodes, by Kubernetes' rules: a kubelet may read objects of its own pods, and write its Node and its
pods' status.

    authorizer.py   the Node authorizer: decides by the request alone; RBAC decides where it does not allow
    node_pods.py    the pods of each node and the objects they refer to
    references.py   the secrets, config maps, claims and service accounts that a pod or volume refers to
    restriction.py  NodeRestriction: checks the objects that a node writes

Read next: ``authorizer.py``.
"""
