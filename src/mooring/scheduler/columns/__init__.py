"""The cluster as arrays over nodes. A node is a row; the row of a removed node is used again.

    cluster      nodes, placed pods, namespaces and all other objects: what plugins read
    inputs       change logs by input               signatures       pods by everything that scheduling reads
    resources    allocatable and used amounts       ports, images    host ports in use, images of nodes
    topology     domains of a label key             pod_sets         selected pods, counted by row and domain
    term_owners  affinity terms of placed pods      selector_index   selectors by a label that they require
    domains      rows by several topologies         trial            changes that are undone afterwards
    ranked_pods  a node's pods by importance, and the lowest priority on each row

Columns are updated when nodes and pods change, never recomputed from all of them. Labels and taints are in
`mooring.constraints.columns`. Read next: ``cluster.py``.
"""
