"""Advice about a cluster, computed from a snapshot without changing the cluster.

    from mooring.advisor.explain import explain
    from mooring.advisor.snapshot import dump

    print(explain(dump([Path("cluster.yaml")]), pod))

`explain`, `simulate`, `audit` and `lint` are packages of their own. Results are frozen structs, the same in Python, in
`-o json` and over HTTP. Read next: ``snapshot/``, which reads clusters.
"""
