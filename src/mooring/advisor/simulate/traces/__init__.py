"""Traces: recorded events of a cluster, replayed in virtual time by the simulated scheduler.

    events       what can happen                       tables, objects    lines of tables, and what they stand for
    opening      which format a file has               own, openb, sktrace, audit_log    the formats
    drawing      workloads drawn from a trace          go_random          the numbers by which they are drawn
    replaying    the replay itself
    measures     numbers over time; prices             results            what comes out
    output       measures in files                     recording          a trace from a live cluster
    checkpoints  how a long replay is resumed          comparing          what differs between two

docs/traces.md is the tutorial.
"""
