"""Translate between `kv` keys and etcd keys under a prefix.

    /registry/pods/default/web      the pod, as JSON (with the prefix `/registry`)
    /registry/.mooring/store        identity of the store: checked at every start, and by every write: see `fence`
    /registry/.mooring/compaction   coordinates compaction: see `compaction`
    /registry/.mooring/pki          signing keys that all servers share: see `EtcdStore.agree`
    /registry/.mooring/writes/…     identify writes whose response was lost: see `fence`
    /registry/.mooring/tick         written to make the watch report its revision: see `store`

Keys under `.mooring/` are inside the prefix, so that the watch covers them, and are hidden from readers.
"""

from typing import Any

from mooring.base import logs
from mooring.store.etcd.config import EtcdConfig
from mooring.store.kv import KeyValue

log = logs.get(__name__)

_INTERNAL = ".mooring/"


class Keys:
    """Translates between the keys of `kv` and the keys under one prefix in etcd."""

    def __init__(self, config: EtcdConfig) -> None:
        self._root = config.root
        self._prefix = config.prefix
        self.begin = f"{config.prefix}/".encode()
        self.end = f"{config.prefix}0".encode()  # "0" follows on "/"
        self.internal = self.begin + _INTERNAL.encode()
        self._after_internal = self.internal[:-1] + b"0"
        self.store = self.internal + b"store"
        self.compaction = self.internal + b"compaction"
        self.tick = self.internal + b"tick"

    def shared_key(self, name: str) -> bytes:
        """Return the etcd key of a value that all servers share."""
        return self.internal + name.encode()

    def etcd_key(self, key: str) -> bytes:
        """Return the etcd key of a `kv` key."""
        if not key.startswith(f"{self._root}/"):
            raise ValueError(f"a key must begin with '{self._root}/': {key!r}")
        return (self._prefix + key[len(self._root) :]).encode()

    def between(self, prefix: str, after_key: str) -> tuple[bytes, bytes]:
        """Return the etcd range of the keys under a prefix after `after_key`; internal keys sort before it."""
        root = f"{self._root}/"
        if not prefix.startswith(root) and not root.startswith(prefix):
            return self.end, self.end
        low = self.etcd_key(prefix) if prefix.startswith(root) else self.begin
        high = low[:-1] + b"0"
        if after_key.startswith(root):
            low = max(low, self.etcd_key(after_key) + b"\0")
        elif after_key > root:
            low = high
        return max(low, self._after_internal), high

    def key_of(self, stored: bytes) -> str | None:
        """Return the `kv` key of an etcd key; None for internal or malformed ones."""
        if stored.startswith(self.internal):
            return None
        try:
            key = self._root + stored.decode()[len(self._prefix) :]
        except UnicodeDecodeError:
            key = "/"
        if key.endswith("/") or "\0" in key:
            if logs.once(("key in etcd", stored)):
                log.error("ignoring a key in etcd that Mooring never wrote", extra={"fields": {"key": repr(stored)}})
            return None
        return key

    def convert_entry(self, kv: Any) -> KeyValue | None:
        """Convert an etcd entry; return None for internal or malformed keys."""
        key = self.key_of(kv.key)
        return None if key is None else KeyValue(key, kv.value, kv.create_revision, kv.mod_revision)
