"""Coordinate compaction between several servers: every interval exactly one of them compacts etcd.

All servers compare-and-swap one key, whose version serves as a shared clock. Every interval a server swaps the key from
the version that it read one interval ago. On success no other server has compacted since, and the revision read at that
time is one interval old by the server's own waiting, so etcd may compact to it. On failure another server did it.
"""

from contextlib import suppress

from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import StoreError
from mooring.store.etcd.client import EtcdClient, RevisionGone
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import EQUAL, VERSION, message

log = logs.get(__name__)


class Compactor:
    """Compacts etcd regularly, taking turns with the other servers."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock, seconds: float) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._version = 0
        self._revision = 0
        """The key's version and the store's revision one interval ago."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._seconds)
            try:
                await self.try_compaction()
            except StoreError as error:
                log.info("etcd was not compacted", extra={"fields": {"error": str(error)}})

    async def try_compaction(self) -> bool:
        """Swap the key and, on success, compact etcd; return whether it did. The first call only reads the state."""
        request = message("TxnRequest")()
        request.compare.add(key=self._keys.compaction, result=EQUAL, target=VERSION, version=self._version)
        put = request.success.add().request_put
        put.key = self._keys.compaction
        put.value = b"%d" % self._revision  # for operators who inspect the key
        request.failure.add().request_range.key = self._keys.compaction
        response = await self._client.call_with_retry("Txn", request)
        wanted, self._revision = self._revision, response.header.revision
        if not response.succeeded:
            found = response.responses[0].response_range.kvs
            self._version = found[0].version if found else 0
            return False
        self._version += 1
        if wanted:
            await compact(self._client, wanted)
            log.debug("compacted etcd", extra={"fields": {"revision": wanted}})
        return bool(wanted)


async def compact(client: EtcdClient, revision: int) -> None:
    """Compact etcd up to a revision; do nothing if that is done already."""
    with suppress(RevisionGone):
        await client.call_with_retry("Compact", message("CompactionRequest")(revision=revision))
