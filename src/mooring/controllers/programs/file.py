"""Parse the file of `--programs`, which maps images to local programs.

    programs:
    - image: example.com/webhook:*
      run: [python3, webhook.py]
    - image: registry.k8s.io/e2e-test-images/agnhost:*
      root: /images/agnhost
      command: [/agnhost]
      args: [pause]

`read_programs_file` validates everything before the server starts.
"""

import ipaddress
import os
import shutil
import socket
import subprocess
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from mooring.controllers.programs.sandbox import build_isolation_command, create_layer, report_process_id_options

_SECONDS = 10.0
_SEPARATORS = ",:\\"
"""Characters with a meaning in options of overlayfs."""


class ProgramsError(Exception):
    """The file of `--programs` is invalid; the message names the field and the reason."""


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The local program that runs in place of containers whose image matches the pattern `image`."""

    image: str
    root: str = ""
    """The container's root directory; without one the program sees this machine's."""
    run: tuple[str, ...] = ()
    """The command line that replaces the container's `command`; the container's `args` follow."""
    command: tuple[str, ...] = ()
    """The image's command, for containers without a `command`."""
    args: tuple[str, ...] = ()
    """The image's arguments, for containers with neither `command` nor `args`."""
    env: dict[str, str] = {}
    working_dir: str = ""


class _ProgramsFile(msgspec.Struct, forbid_unknown_fields=True):
    programs: list[Program]
    network: Literal["machine", "own"] = "machine"
    address: str = ""


class Programs(msgspec.Struct, frozen=True):
    """The parsed file of `--programs`."""

    programs: tuple[Program, ...]
    address: str
    """The address of this machine, and of all pods that share its network."""
    own_networks: bool
    folder: Path
    kubeconfig: Path

    def find_program(self, image: str) -> Program | None:
        """Return the first program whose pattern matches an image."""
        return next((each for each in self.programs if fnmatchcase(image, each.image)), None)


def read_programs_file(path: Path, data_dir: Path) -> Programs:
    """Read and validate the file of `--programs`. Raise ProgramsError if it is unreadable or invalid."""
    try:
        found = msgspec.yaml.decode(path.read_bytes(), type=_ProgramsFile)
    except OSError as error:
        raise ProgramsError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ProgramsError(f"{path}: {error}") from error
    base, data_dir = path.absolute().parent, data_dir.resolve()  # mounts follow no links
    programs = tuple(
        _validate_program(program, base, f"{path}: programs[{index}]") for index, program in enumerate(found.programs)
    )
    if any(program.root for program in programs):
        _require_sandbox(data_dir, str(path))
    if found.network == "own":
        _require_root(str(path))
    return Programs(
        programs,
        _resolve_address(found.address, str(path)),
        own_networks=found.network == "own",
        folder=data_dir / "programs",
        kubeconfig=data_dir / "admin.kubeconfig",
    )


def _validate_program(program: Program, base: Path, where: str) -> Program:
    if not program.image:
        raise ProgramsError(f"{where}.image: name an image, such as example.com/webhook:*")
    if not program.root and not program.run:
        raise ProgramsError(f"{where}: say what to run: `run`, a command of this machine, or `root`, a folder")
    if program.root:
        root = base / program.root
        if not root.is_dir():
            raise ProgramsError(f"{where}.root: there is no folder {root}")
        if root == Path("/"):
            raise ProgramsError(f"{where}.root: / is this machine itself: take a folder of its own, or `run`")
        if set(str(root)) & set(_SEPARATORS):
            raise ProgramsError(f"{where}.root: {root} cannot be used: take a folder without {_SEPARATORS} in its name")
        return msgspec.structs.replace(program, root=str(root))
    if program.command:
        raise ProgramsError(f"{where}.command: only a program with a `root` can have it; `run` is what runs")
    first = program.run[0]
    found = shutil.which(str(base / first) if "/" in first else first)
    if found is None:
        raise ProgramsError(f"{where}.run: there is no program {first} on this machine")
    return msgspec.structs.replace(program, run=(found, *program.run[1:]), working_dir=program.working_dir or str(base))


def _require_sandbox(data_dir: Path, where: str) -> None:
    missing = [name for name in ("bwrap", "nsenter", "unshare") if shutil.which(name) is None]
    if missing:
        needed = f"needs {', '.join(missing)}, which Debian has in the packages bubblewrap and util-linux"
        raise ProgramsError(f"{where}: `root` {needed}; `run` without `root` needs nothing")
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold the server's keys
    with tempfile.TemporaryDirectory(dir=data_dir) as folder:
        place = Path(folder)
        (place / "image").mkdir()
        create_layer(place / "layer")
        words = [
            *build_isolation_command(place / "image", place / "layer", [], hostname="trial", directory="/"),
            *report_process_id_options(1),
        ]
        # The program does not exist: bubblewrap must get as far as reporting that.
        tried = subprocess.run([*words, "/none"], capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - fixed
    if "execvp /none" not in tried.stderr:
        raise ProgramsError(f"{where}: `root` does not work here: {tried.stderr.strip()}")


def _resolve_address(wanted: str, where: str) -> str:
    try:
        found = ipaddress.ip_address(wanted or _find_own_address())
    except ValueError as error:
        raise ProgramsError(f"{where}: address: {error}") from error
    if found.is_loopback or found.is_unspecified:
        raise ProgramsError(
            f"{where}: address: {found} is what every machine calls itself; name an address that others could use"
        )
    return str(found)


def _require_root(where: str) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None:
        needed = "only root can have it, with the programs ip and nsenter (Debian's iproute2 and util-linux)"
        raise ProgramsError(f"{where}: network: own: {needed}; leave it out to share this machine's network")


def _find_own_address() -> str:
    """Return this machine's address on its default route, without sending anything; loopback if it has none."""
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((far, 9))
                return str(probe.getsockname()[0])
            except OSError:
                continue
    return "127.0.0.1"
