"""Experiments: run every combination of clusters, workloads, schedulers and seeds in a file, and tabulate the results.

    experiment_file   the file
    workers           run on all cores or on Dask, and summarise

`mooring experiment run FILE` is in ``cli/commands/experiment.py``; docs/traces.md is the tutorial.
"""
