"""Revisions, transactions and watch over exchangeable backends.

- `kv` is the interface, with a worked example of revisions: start there.
- `errors` is everything that can go wrong, drawn as a tree.
- `memory`, `sqlite` and `etcd` are the backends. All keep every value in memory and share `local` (reads, compaction),
  `mvcc` (versions and preconditions) and `watch` (who is told of what); `sqlite_file` is the one place that knows SQL.
"""
