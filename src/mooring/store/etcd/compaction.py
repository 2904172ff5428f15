"""How several servers agree to forget: one of them compacts etcd, every five minutes, whichever is first.

They meet at one key, whose version is the time on a clock that all share. Every interval a server swaps it from the
version it saw an interval ago. If that succeeds, nobody else has done so since, and the revision the server saw then is
an interval old, measured by no clock but its own waiting: etcd may forget what is older. If not, somebody else did it.
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
    """One server's part in it. `run` is a task of the store."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock, seconds: float) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._version = 0
        self._revision = 0
        """What the key's version and the store's revision were an interval ago."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._seconds)
            try:
                await self.turn()
            except StoreError as error:
                log.info("etcd was not compacted", extra={"fields": {"error": str(error)}})

    async def turn(self) -> bool:
        """Try to swap the key, and compact if that was us. The first turn only learns where things are."""
        request = message("TxnRequest")()
        request.compare.add(key=self._keys.compaction, result=EQUAL, target=VERSION, version=self._version)
        put = request.success.add().request_put
        put.key = self._keys.compaction
        put.value = b"%d" % self._revision  # for people who look
        request.failure.add().request_range.key = self._keys.compaction
        response = await self._client.ask("Txn", request)
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
    """Let etcd forget what is older than a revision, unless it has already."""
    with suppress(RevisionGone):
        await client.ask("Compact", message("CompactionRequest")(revision=revision))
