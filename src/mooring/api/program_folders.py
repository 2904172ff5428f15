"""Where programs that run for containers of simulated nodes leave what others ask for: logs, and how to enter them.

The controllers start programs and write these files (``mooring.controllers.programs``); the API server, in another
process, reads them for `kubectl logs` and `kubectl exec` (``mooring.apiserver.streams.simulated.programs``).

    FOLDER/pods/<uid>/containers/<container>/3.log       what it has written since its third restart, with times
    FOLDER/pods/<uid>/containers/<container>/enter.json  what to put before a command to run it in there
"""

from pathlib import Path

import msgspec


class Entrance(msgspec.Struct, frozen=True):
    """How a command gets to where a program runs."""

    words: list[str]
    """What stands before the command."""
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
    """None when the container's image has no program, or it was not started yet."""
    try:
        return msgspec.json.decode((container / "enter.json").read_bytes(), type=Entrance)
    except (OSError, msgspec.DecodeError):
        return None
