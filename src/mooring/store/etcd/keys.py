"""Where our keys are in etcd, and what etcd's entries are for us.

    /registry/pods/default/web      the pod, as JSON (with the prefix `/registry`)
    /registry/.mooring/store        who owns the prefix: checked at every start, and by every write: see `fence`
    /registry/.mooring/compaction   how far history was forgotten: see `compaction`
    /registry/.mooring/pki          the keys that all servers must share: see `EtcdStore.agree`
    /registry/.mooring/writes/…     by which writes are recognised whose answer was lost: see `marks`
    /registry/.mooring/tick         written to learn how far the watch is: see `store`

What is under `.mooring/` is inside the prefix, so that the watch tells of it too, and is not shown to readers.
"""

from typing import Any

from mooring.base import logs
from mooring.store.etcd.config import EtcdConfig
from mooring.store.kv import KeyValue

log = logs.get(__name__)

_INTERNAL = ".mooring/"


class Keys:
    """Translates keys, for one prefix."""

    def __init__(self, config: EtcdConfig) -> None:
        self._root = config.root
        self._prefix = config.prefix
        self.begin = f"{config.prefix}/".encode()
        self.end = f"{config.prefix}0".encode()  # "0" follows on "/"
        self.internal = self.begin + _INTERNAL.encode()
        self._behind_internal = self.internal[:-1] + b"0"
        self.store = self.internal + b"store"
        self.compaction = self.internal + b"compaction"
        self.tick = self.internal + b"tick"

    def common(self, name: str) -> bytes:
        """Where something is that all servers must have in common."""
        return self.internal + name.encode()

    def stored(self, key: str) -> bytes:
        """Where a key is in etcd."""
        if not key.startswith(f"{self._root}/"):
            raise ValueError(f"a key must begin with '{self._root}/': {key!r}")
        return (self._prefix + key[len(self._root) :]).encode()

    def between(self, prefix: str, after_key: str) -> tuple[bytes, bytes]:
        """The range in etcd of the keys under a prefix that come behind a key; what is internal lies before it all."""
        root = f"{self._root}/"
        if not prefix.startswith(root) and not root.startswith(prefix):
            return self.end, self.end
        low = self.stored(prefix) if prefix.startswith(root) else self.begin
        high = low[:-1] + b"0"
        if after_key.startswith(root):
            low = max(low, self.stored(after_key) + b"\0")
        elif after_key > root:
            low = high
        return max(low, self._behind_internal), high

    def key_of(self, stored: bytes) -> str | None:
        """Our key of an entry in etcd; None if readers are not to see it."""
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

    def entry(self, kv: Any) -> KeyValue | None:
        """An entry of etcd as ours; None if readers are not to see it."""
        key = self.key_of(kv.key)
        return None if key is None else KeyValue(key, kv.value, kv.create_revision, kv.mod_revision)
