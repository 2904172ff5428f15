"""The cluster as arrays over nodes. A node is a row; the row of a removed node is used again.

    cluster      nodes, placed pods, namespaces and all other objects: what plugins read
    inputs       change logs by input               signatures       pods by everything that scheduling reads
    resources    amounts, host ports, images        trial            changes that are undone afterwards
    topology     domains of label keys              pod_sets         selected pods and affinity terms, counted by row
    ranked_pods  a node's pods by importance        selector_index   selectors by a label that they require

Columns are updated when nodes and pods change, never recomputed from all of them. Labels and taints are in
`mooring.constraints.columns`. Read next: ``cluster.py``.
"""
