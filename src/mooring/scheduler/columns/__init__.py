"""The cluster as arrays over nodes. A node is a row; a removed node's row is used again.

    cluster      the whole: nodes, placed pods, namespaces and all other objects; who wants to know, asks here
    signatures       pods that look alike, interned
    resources    allocatable and used amounts       ports, images    what they say
    topology     domains of a label key             pod_sets         chosen pods, counted by row and by domain
    term_owners  the affinity terms of placed pods  supposition      the cluster as if, for a try
    domains      rows by several topologies         weak_list        who follows a count
    ranked_pods  a node's pods by importance        priorities       the lowest priority of a row's pods

Labels and taints are `mooring.constraints.columns`, as are the words for what has changed. All is kept up to date
as nodes and pods come and go, never recomputed by walking over them. Knows nothing of plugins. Read next:
``cluster.py``.
"""
