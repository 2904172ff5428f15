"""The file of `--programs`: which images stand for which programs of this machine.

    programs:
    - image: example.com/webhook:*
      run: [python3, webhook.py]
    - image: registry.k8s.io/e2e-test-images/agnhost:*
      root: /images/agnhost
      command: [/agnhost]
      args: [pause]

`read` checks everything before the server starts, so that a mistake is told at once.
"""

import ipaddress
import shutil
import socket
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

_SECONDS = 10.0
_MOST_ADDRESSES = 4096


class ProgramsError(Exception):
    """The file cannot be used; the message says where and why."""


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What runs for the containers of some images."""

    image: str
    """A name with `*` and `?`."""
    root: str = ""
    """A folder that is the container's file system; without one, the program sees that of this machine."""
    run: tuple[str, ...] = ()
    """Runs in place of what the container's `command` says; the container's `args` follow."""
    command: tuple[str, ...] = ()
    """As an image has it: for containers without a `command`."""
    args: tuple[str, ...] = ()
    """As an image has it: for containers with neither `command` nor `args`."""
    env: dict[str, str] = {}
    working_dir: str = ""
    writable: tuple[str, ...] = ()
    """Folders within the root of which every container gets a copy of its own; all else there is read-only."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    programs: list[Program]
    address: str = ""


class Programs(msgspec.Struct, frozen=True):
    """What the file says."""

    programs: tuple[Program, ...]
    addresses: str
    """The addresses of this machine that pods get, as a network; all get the same one where it has only that."""
    folder: Path
    """Where pods have their files."""
    kubeconfig: Path
    """Names the server that programs are told of."""

    def of(self, image: str) -> Program | None:
        """The first program that an image stands for."""
        return next((each for each in self.programs if fnmatchcase(image, each.image)), None)


def read(path: Path, data_dir: Path) -> Programs:
    """Read a file, and find what it names. Raises ProgramsError."""
    try:
        found = msgspec.yaml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise ProgramsError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ProgramsError(f"{path}: {error}") from error
    base = path.absolute().parent
    programs = tuple(
        _checked(program, base, f"{path}: programs[{index}]") for index, program in enumerate(found.programs)
    )
    if any(program.root for program in programs):
        _require_bubblewrap(str(path))
    return Programs(
        programs, _addresses(found.address, str(path)), data_dir / "programs", data_dir / "admin.kubeconfig"
    )


def _checked(program: Program, base: Path, where: str) -> Program:
    """A program with absolute paths."""
    if not program.image:
        raise ProgramsError(f"{where}.image: name an image, such as example.com/webhook:*")
    if not program.root and not program.run:
        raise ProgramsError(f"{where}: say what to run: `run`, a command of this machine, or `root`, a folder")
    if program.root:
        root = base / program.root
        if not root.is_dir():
            raise ProgramsError(f"{where}.root: there is no folder {root}")
        for index, folder in enumerate(program.writable):
            if not folder.startswith("/") or ".." in folder or not (root / folder.lstrip("/")).is_dir():
                raise ProgramsError(f"{where}.writable[{index}]: {folder} is no folder of {root}, from its /")
        return msgspec.structs.replace(program, root=str(root))
    for field in ("writable", "command"):
        if getattr(program, field):
            raise ProgramsError(f"{where}.{field}: only a program with a `root` can have it")
    first = program.run[0]
    found = shutil.which(str(base / first) if "/" in first else first)
    if found is None:
        raise ProgramsError(f"{where}.run: there is no program {first} on this machine")
    return msgspec.structs.replace(program, run=(found, *program.run[1:]), working_dir=program.working_dir or str(base))


def _require_bubblewrap(where: str) -> None:
    """Find out at once whether programs can have file systems of their own here."""
    if shutil.which("bwrap") is None or shutil.which("nsenter") is None:
        needed = "needs the programs bwrap and nsenter (Debian's packages bubblewrap and util-linux)"
        raise ProgramsError(f"{where}: `root` {needed}; `run` without `root` does not")
    trial = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(trial, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - fixed
    if tried.returncode:
        raise ProgramsError(f"{where}: `root` does not work here, for bwrap says: {tried.stderr.strip()}")


def _addresses(wanted: str, where: str) -> str:
    try:
        found = ipaddress.ip_network(wanted or _own_address(), strict=False)
    except ValueError as error:
        raise ProgramsError(f"{where}: address: {error}") from error
    if found.num_addresses > _MOST_ADDRESSES:
        raise ProgramsError(f"{where}: address: {found} has more than {_MOST_ADDRESSES} addresses")
    if found.is_loopback:
        raise ProgramsError(
            f"{where}: address: {found} is what everybody calls himself; name another address of this machine"
        )
    return str(found)


def _own_address() -> str:
    """The address that this machine has where it would go out by; nothing is sent. Loopback when it has no other."""
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((far, 9))
                return str(probe.getsockname()[0])
            except OSError:
                continue
    return "127.0.0.1"
