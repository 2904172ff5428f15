"""Experiments: run every combination of clusters, workloads, schedulers and seeds of one file into one table.

    experiment_file   the file                     single_run    one combination, in a process of its own
    workers           on all cores, or on Dask     tables        what comes out

`mooring experiment run FILE` is in ``cli/commands/experiment.py``; docs/traces.md is the tutorial.
"""
