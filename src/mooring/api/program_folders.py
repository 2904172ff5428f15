"""The file layout of programs that run for containers of simulated nodes: logs, and how to exec into them.

The controllers start programs and write these files (``mooring.controllers.programs``); the API server, in another
process, reads them for `kubectl logs` and `kubectl exec` (``mooring.apiserver.streams.simulated.programs``).

    FOLDER/pods/<uid>/containers/<container>/3.log       the output since the third restart, with timestamps
    FOLDER/pods/<uid>/containers/<container>/enter.json  the command prefix and environment for exec
"""

from pathlib import Path

import msgspec


class Entrance(msgspec.Struct, frozen=True):
    """The command prefix that runs a command in a program's environment."""

    words: list[str]
    """The command prefix."""
    environment: dict[str, str]
    directory: str


def pod_folder(folder: Path, uid: str) -> Path:
    return folder / "pods" / uid


def container_folder(folder: Path, uid: str, container: str) -> Path:
    return pod_folder(folder, uid) / "containers" / container


def log_file(container: Path, restarts: int) -> Path:
    return container / f"{restarts}.log"


def write_entrance(container: Path, entrance: Entrance) -> None:
    (container / "enter.json").write_bytes(msgspec.json.encode(entrance))


def read_entrance(container: Path) -> Entrance | None:
    """Return None if the container's image has no program, or it was not started yet."""
    try:
        return msgspec.json.decode((container / "enter.json").read_bytes(), type=Entrance)
    except (OSError, msgspec.DecodeError):
        return None
