"""The configuration of the API server, and the options that depend on versions, which are read only here (KEP-4330).

`ServerConfig` has the values of the command line; `for_component` derives `VersionOptions` from versions and gates: the
contents of `/version`, and the expected versions of other components.
"""

import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mooring.api.kinds import KINDS, Kind
from mooring.api.meta_v1 import VersionInfo
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages.routes import ResourceHandlers
from mooring.apiserver.service_network import ServiceNetwork
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.base.component import Component, resolve
from mooring.base.known_gates import COMPATIBILITY_VERSIONS
from mooring.base.version import ComponentVersions, Version
from mooring.store.etcd.config import EtcdConfig
from mooring.store.kv import Store

DEFAULT_PORT = 6443
DEFAULT_ADDRESS = "127.0.0.1"
_CREATE_FOR_STREAMS = Version(1, 35)
_STATUS_PAGES = Version(1, 36)
_PROCESSORS = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}

MinorVersion = tuple[int, int]


class VersionRange(msgspec.Struct, frozen=True):
    """The versions of another component with which this server works, from the lowest to the highest."""

    oldest: MinorVersion
    newest: MinorVersion

    def __contains__(self, version: object) -> bool:
        return isinstance(version, tuple) and self.oldest <= version <= self.newest

    def __str__(self) -> str:
        return f"{_format_version(self.oldest)} to {_format_version(self.newest)}"


class StatusPages(msgspec.Struct, frozen=True, rename="camel"):
    """The version strings that `/statusz` shows."""

    go_version: str
    binary_version: str
    emulation_version: str


class VersionOptions(msgspec.Struct, frozen=True):
    """Options that follow from the server's emulated and compatibility versions, such as `/version`'s content."""

    shown: VersionInfo
    """The JSON body of `/version`."""
    expected: Mapping[str, VersionRange]
    """The compatible versions of other components, by the component's name (KEP-4330)."""
    status_pages: StatusPages | None = None
    """The content of `/statusz` and `/flagz`, which exist from 1.36 on; None before."""
    streams_need_create: bool = True
    """Whether exec and port-forward need the verb `create` with any HTTP method, as from 1.35 on."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The server's settings. Its data directory contains the store, the certificates and the kubeconfig files."""

    data_dir: Path
    component: Component = msgspec.field(default_factory=resolve)
    ephemeral: bool = False
    """Whether objects are kept in memory only."""
    accept_lost_writes: bool = False
    """Whether to start although the end of the store's write-ahead log is missing."""
    etcd: EtcdConfig | None = None
    """The etcd that stores objects, which other servers may share; the data directory then has no store."""
    bind_address: str = DEFAULT_ADDRESS
    port: int = DEFAULT_PORT
    """The port to listen on; 0 for any free one."""
    services: ServiceNetwork = msgspec.field(default_factory=ServiceNetwork)
    tls_names: tuple[str, ...] = ()
    """Additional names and addresses in the server's certificate."""
    runtime_config: Mapping[str, bool] = msgspec.field(default_factory=dict)
    kinds: tuple[Kind, ...] = KINDS
    """The kinds to serve, by default all; tests register kinds with other lifecycles."""
    token_auth_file: Path | None = None
    audit_log: Path | None = None
    limits: Limits = msgspec.field(default_factory=Limits)
    answers: Callable[[Store], ResourceHandlers] = lambda _: {}
    """A function that makes the handlers of kinds that are computed instead of stored."""
    kubelets: KubeletOptions = msgspec.field(default_factory=KubeletOptions)
    flags: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The command-line flags, shown on `/flagz`."""
    shutdown_delay: float = 0.0
    """The seconds for which a stopping server still serves requests, so that load balancers notice that it is not
    ready.
    """


def for_component(component: Component) -> VersionOptions:
    """Derive the options from a component's versions and gates."""
    versions = component.versions
    return VersionOptions(
        _build_version_info(versions, all_three=component.gates.enabled(COMPATIBILITY_VERSIONS)),
        _compatible_versions(versions),
        StatusPages(f"python{platform.python_version()}", str(versions.binary), str(versions.emulation))
        if versions.emulation >= _STATUS_PAGES
        else None,
        streams_need_create=versions.emulation >= _CREATE_FOR_STREAMS,
    )


def _build_version_info(versions: ComponentVersions, *, all_three: bool) -> VersionInfo:
    emulated = versions.emulation
    info = VersionInfo(
        major=str(emulated.major),
        minor=str(emulated.minor),
        git_version=f"v{emulated}.0",
        git_tree_state="clean",
        build_date="1970-01-01T00:00:00Z",  # builds that can be repeated have no date
        go_version=f"python{platform.python_version()}",
        compiler=platform.python_implementation().lower(),
        platform=f"{platform.system().lower()}/{_PROCESSORS.get(platform.machine(), platform.machine())}",
    )
    if all_three:
        info.binary_major, info.binary_minor = _major_and_minor(versions.binary)
        info.emulation_major, info.emulation_minor = _major_and_minor(emulated)
        info.min_compatibility_major, info.min_compatibility_minor = _major_and_minor(versions.min_compatibility)
    return info


def _major_and_minor(version: Version) -> tuple[str, str]:
    return str(version.major), str(version.minor)


def _compatible_versions(versions: ComponentVersions) -> dict[str, VersionRange]:
    """Return, for each kind of component, the versions that work with this server (KEP-4330)."""
    oldest, newest = versions.min_compatibility, versions.emulation
    together = VersionRange(oldest, newest)
    node = VersionRange(oldest.minus(2), newest)
    return {
        "kube-scheduler": together,
        "kube-controller-manager": together,
        "cloud-controller-manager": together,
        "mooring-scheduler": together,
        "mooring-controllers": together,
        "kubelet": node,
        "kube-proxy": node,
        "kubectl": VersionRange(oldest.minus(1), newest.plus(1)),
    }


def _format_version(version: MinorVersion) -> str:
    return f"{version[0]}.{version[1]}"
