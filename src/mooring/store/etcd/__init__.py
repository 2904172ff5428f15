"""A store for several servers: etcd, the engine that Kubernetes itself trusts.

- `config` is what a user says: servers, certificates, prefix.
- `store` is the `kv.Store`: memory fed by one watch, and writes as transactions. Start there.
- `client` calls the members of etcd, one after the other if need be; `messages` are what it sends.
- `keys` and `transactions` translate between our words and etcd's; `feed` is the watch; `identity`, `fence`, `leases`
  and `compaction` are what servers have to agree upon.

Importing this package costs nothing; importing `store` brings gRPC in, which the extra
`[etcd]` installs; `loading` says so where it is missing.
"""

import os

# Servers start other programs, but never go on in a copy of themselves; gRPC would prepare for that and print about it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
