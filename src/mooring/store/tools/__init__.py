"""What `mooring store` does: copies between stores, backups, checks and numbers.

Everything is read from a `Source` and written to a `Target`, so that a copy, a backup and a restore are one loop:

    SqliteSource · EtcdSource · BackupSource  ──►  transfer.copy  ──►  SqliteTarget · StoreTarget · BackupTarget
                         │
                         └──►  verify.problems, inventory.count

- `contents` is the interface: start there. `transfer` is the loop.
- `sqlite_source` reads a data directory, also while a server runs on it; `sqlite_target` makes one.
- `etcd_source` reads a store in etcd; `store_target` writes into any `kv.Store`, which for users is etcd.
- `backup_file` is the format of backups.
"""
