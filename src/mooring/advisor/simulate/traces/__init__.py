"""Traces: recorded events of a cluster, replayed in virtual time by the simulated scheduler.

    events       what can happen                       tables         lines of tables
    opening      which format a file has               own, openb, sktrace, audit_log    the formats
    drawing      workloads drawn at random from a trace
    replaying    the replay itself                     measures, prices   numbers over time
    results      the result, in files and compared     recording      a trace from a live cluster
    checkpoints  how a long replay is resumed

docs/traces.md is the tutorial.
"""
