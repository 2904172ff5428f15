"""Where gRPC comes in: it is installed only by those who keep their objects in etcd, and loaded only when they do."""

from collections.abc import Iterator
from contextlib import contextmanager

from mooring.store.errors import OpenError


@contextmanager
def grpc_needed() -> Iterator[None]:
    """Around an import that brings gRPC in. Raises `OpenError` where it is not installed, with what to type."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise OpenError(
            "etcd is spoken to by gRPC, which is not installed: pip install 'kube-mooring[etcd]' "
            "(pipx inject kube-mooring grpcio protobuf, where pipx installed it)"
        ) from error
