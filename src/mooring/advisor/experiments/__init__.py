"""Experiments: run every combination of clusters, workloads, schedulers and seeds of one file into one table.

    experiment_file   the file        workers   runs on all cores or on Dask, and their table

`mooring experiment run FILE` is in ``cli/commands/experiment.py``; docs/traces.md is the tutorial.
"""
