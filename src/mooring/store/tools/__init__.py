"""The operations of `mooring store`: copy, backup, restore, verify and statistics.

All of them read from a `Source` and write to a `Target`, so a copy, a backup and a restore are one loop:

    SqliteSource · EtcdSource · BackupSource  ──►  transfer.copy  ──►  SqliteTarget · StoreTarget · BackupTarget
                         │
                         └──►  verify.problems, inventory.count

- `contents` is the interface: start there. `transfer` is the loop.
- `sqlite_source` reads a data directory, also while a server runs on it; `sqlite_target` creates one.
- `etcd_source` reads a store in etcd; `store_target` writes into any `kv.Store`, which for users is etcd.
- `backup_file` is the format of backups.
"""
