"""Revisions, transactions and watch over exchangeable backends.

- `kv` is the interface, with a worked example of revisions: start there.
- `errors` is the exception tree.
- `memory`, `sqlite` and `etcd` are the backends. All keep every value in memory and share `local` (reads, compaction),
  `mvcc` (versions and preconditions) and `watch` (delivery of events to watchers); only `sqlite_file` knows SQL.
"""
