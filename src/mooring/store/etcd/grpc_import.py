"""Import gRPC on demand: only users of etcd install it."""

from collections.abc import Iterator
from contextlib import contextmanager

from mooring.store.errors import OpenError


@contextmanager
def explain_missing_grpc() -> Iterator[None]:
    """Wrap an import that needs gRPC; raise `OpenError` with the install command if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise OpenError(
            "etcd is spoken to by gRPC, which is not installed: pip install 'kube-mooring[etcd]' "
            "(pipx inject kube-mooring grpcio protobuf, where pipx installed it)"
        ) from error
