"""Traces: recorded events of a cluster, replayed in virtual time by the simulated scheduler.

    events             the types of events
    tables             rows of table files
    opening            detect the format of a file
    own, openb, sktrace, audit_log   the formats
    drawing            workloads drawn at random from a trace
    replaying          the replay itself
    measures, prices   numbers over time
    results            the result, in files and compared
    recording          record a trace from a live cluster
    checkpoints        resume a long replay

docs/traces.md is the tutorial.
"""
