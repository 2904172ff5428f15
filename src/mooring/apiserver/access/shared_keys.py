"""Servers on one etcd must have the same authority and sign tokens with the same key: one that does not is not started.

Otherwise clients would be let in or not depending on which server a balancer sends them to. `ApiServer.open` asks; the
store keeps the fingerprints of the first server's keys.
"""

from collections.abc import Awaitable, Callable

from mooring.apiserver.access.pki import Pki, PkiError

_NAME = "pki"


async def require_shared_keys(pki: Pki, agree: Callable[[str, bytes], Awaitable[bytes]]) -> None:
    """Raise PkiError if a server's keys differ from those of the servers that share the store."""
    mine = [f"{file} {fingerprint}" for file, fingerprint in pki.fingerprints().items()]
    theirs = (await agree(_NAME, "\n".join(mine).encode())).decode(errors="replace").splitlines()
    odd = [line.split()[0] for line in mine if line not in theirs]
    if odd:
        raise PkiError(
            f"{pki.directory} is not what the other servers on this etcd have ({' and '.join(odd)}), so that their"
            " clients would be refused here: copy ca.crt, ca.key and sa.key from one of them. If the keys of all"
            f" servers were changed on purpose: etcdctl del PREFIX/.mooring/{_NAME}, with PREFIX as in --etcd-prefix"
        )
