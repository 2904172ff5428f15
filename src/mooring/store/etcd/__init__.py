"""A store for several servers: etcd, the engine that Kubernetes itself trusts.

- `config` holds the settings: servers, certificates, prefix.
- `store` is the `kv.Store`: memory fed by one watch, and writes as transactions. Start there.
- `client` calls the members of etcd and fails over between them; `messages` defines the protobuf messages.
- `keys` and `transactions` translate between `kv` and etcd; `feed` is the watch; `identity`, `fence`, `leases`
  and `compaction` coordinate several servers on one prefix.

Importing this package costs nothing; importing `store` brings gRPC in, which the extra
`[etcd]` installs; `config.explain_missing_grpc` says so where it is missing.
"""

import os

# Servers start programs but never fork without exec; gRPC's fork support would only print warnings.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
