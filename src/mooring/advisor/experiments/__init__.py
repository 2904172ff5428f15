"""Experiments: clusters, workloads, schedulers and seeds in one file, every combination run once, and one table.

    experiment_file   the file                     single_run    one combination, in a process of its own
    workers           on all cores, or on Dask     tables        what comes out

`mooring experiment run FILE` is in ``cli/experiment.py``; docs/traces.md is the tutorial.
"""
