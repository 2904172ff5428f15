"""Read kubeconfig files: the server, its authorities and the credentials. `load` finds and merges files as kubectl
does.

An explicit file is read alone. Otherwise the files of `$KUBECONFIG` are merged (of entries with one name the first
counts, missing files are left out), or `~/.kube/config` is read; without any, the pod's service account is used.
Relative paths start from the file's folder. Read next: ``connect.py``.
"""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from mooring.api import codec
from mooring.base.clock import Clock, SystemClock
from mooring.client.credentials import (
    EXEC_VERSIONS,
    Credential,
    Credentials,
    ExecCommand,
    ExecPlugin,
    StaticCredentials,
    TokenFile,
)
from mooring.client.errors import ConfigError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Connection(msgspec.Struct, frozen=True):
    """The way to reach a server: its URL, trusted authorities, credentials, and the namespace of the context."""

    server: str
    """The URL of the server, with scheme and without a trailing slash."""
    credentials: Credentials = msgspec.field(default_factory=StaticCredentials)
    certificate_authority: bytes = b""
    """The authorities that verify the server, in PEM; empty to use the machine's own."""
    insecure: bool = False
    """Whether the server's certificate is not verified."""
    tls_server_name: str = ""
    """The name in the server's certificate, where it is not the one in the URL."""
    namespace: str = "default"
    """The namespace of the context, for commands."""
    context: str = ""


def load(
    path: str | os.PathLike[str] | None = None,
    context: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Connection:
    """Return the connection of a kubeconfig context (default: the current one). Raise ConfigError if it is unusable.

    Without any kubeconfig file, a program in a pod gets the connection of its service account.
    """
    environment = os.environ if environment is None else environment
    clock = clock or SystemClock()
    if path is not None:
        return _merged_connection({Path(path): _read_kubeconfig(Path(path))}, context, clock)
    candidates = _default_kubeconfig_paths(environment)
    files = {candidate: _read_kubeconfig(candidate) for candidate in candidates if candidate.is_file()}
    if files:
        return _merged_connection(files, context, clock)
    if "KUBERNETES_SERVICE_HOST" in environment and (_SERVICE_ACCOUNT / "token").is_file():
        return in_cluster(environment, _SERVICE_ACCOUNT, clock)
    looked = ", ".join(map(str, candidates))
    raise ConfigError(f"no kubeconfig: there is no {looked}; give --kubeconfig FILE or set KUBECONFIG")


def in_cluster(environment: Mapping[str, str], account: Path, clock: Clock) -> Connection:
    """Return the connection of a program in a pod: the server's address from the environment, its account's token."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = account / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(account / "token", clock),
        certificate_authority=_read_file(account / "ca.crt", "the service account"),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


# -- the files


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: Any = None


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    exec: ExecCommand | None = None


class _Context(msgspec.Struct, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedEntry(msgspec.Struct):
    """An item of a kubeconfig's `clusters`, `users` or `contexts`: its name, and the content in one of three fields."""

    name: str
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)
    user: _User = msgspec.field(default_factory=_User)
    context: _Context = msgspec.field(default_factory=_Context)


class _Config(msgspec.Struct, rename="kebab"):
    kind: str = ""
    current_context: str = ""
    clusters: list[_NamedEntry] | None = None
    users: list[_NamedEntry] | None = None
    contexts: list[_NamedEntry] | None = None


def _default_kubeconfig_paths(environment: Mapping[str, str]) -> list[Path]:
    listed = [text for text in environment.get("KUBECONFIG", "").split(os.pathsep) if text]
    if listed:
        return list(dict.fromkeys(Path(text) for text in listed))
    home = environment.get("HOME")
    return [(Path(home) if home else Path.home()) / ".kube" / "config"]


def _read_kubeconfig(path: Path) -> _Config:
    content = _read_file(path, "the kubeconfig")
    try:
        documents = codec.read_yaml(content)
        tree = documents[0].tree if documents else {}
        config = msgspec.convert(_without_nulls(tree), _Config)
    except codec.DecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} is no kubeconfig: {error}") from None
    if config.kind not in {"", "Config"}:
        raise ConfigError(f"{path} is no kubeconfig: its kind is {config.kind!r}")
    return config


def _without_nulls(tree: Any) -> Any:
    """Return a JSON tree without the fields that are null, which Go treats as absent."""
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [_without_nulls(item) for item in tree]
    return tree


def _merged_connection(files: Mapping[Path, _Config], context: str, clock: Clock) -> Connection:
    """Return a context's connection; the first file's entry of a name counts. Raise ConfigError for a missing entry."""
    clusters: dict[str, tuple[_Cluster, Path]] = _merge_entries(files, "cluster")
    users: dict[str, tuple[_User, Path]] = _merge_entries(files, "user")
    contexts: dict[str, tuple[_Context, Path]] = _merge_entries(files, "context")
    paths, names = ", ".join(map(str, files)), ", ".join(sorted(contexts)) or "none"
    name = context or next(filter(None, (config.current_context for config in files.values())), "")
    if not name:
        raise ConfigError(f"{paths}: no current-context: choose one of {names}")
    if name not in contexts:
        raise ConfigError(f"{paths}: there is no context {name!r}; there are: {names}")
    chosen, file = contexts[name]
    where = f"{file}: context {name!r} names the"
    cluster = clusters.get(chosen.cluster)
    if cluster is None:
        raise ConfigError(f"{where} cluster {chosen.cluster!r}, which is not there")
    user = users.get(chosen.user) if chosen.user else (_User(), file)
    if user is None:
        raise ConfigError(f"{where} user {chosen.user!r}, which is not there")
    return _build_connection(name, chosen, cluster, user, clock)


def _merge_entries(files: Mapping[Path, _Config], what: str) -> dict[str, tuple[Any, Path]]:
    """Return clusters, users or contexts by name, each with its file: relative paths start from the file's folder.

    The first file with a name counts. Raise ConfigError if a file has a name twice.
    """
    found: dict[str, tuple[Any, Path]] = {}
    for path, config in files.items():
        seen: set[str] = set()
        for each in getattr(config, f"{what}s") or ():
            if each.name in seen:
                raise ConfigError(f"{path}: there are two {what}s named {each.name!r}")
            seen.add(each.name)
            found.setdefault(each.name, (getattr(each, what), path))
    return found


def _build_connection(
    name: str, context: _Context, cluster: tuple[_Cluster, Path], user: tuple[_User, Path], clock: Clock
) -> Connection:
    entry, file = cluster
    where = f"{file}: the cluster {context.cluster!r} has"
    if not entry.server:
        raise ConfigError(f"{where} no server")
    if entry.proxy_url:
        raise ConfigError(f"{where} a proxy-url, which is not supported")
    authority = _read_data_or_file(
        file, "certificate-authority", entry.certificate_authority_data, entry.certificate_authority
    )
    if authority and entry.insecure_skip_tls_verify:
        raise ConfigError(f"{where} both a certificate authority and insecure-skip-tls-verify: remove one of them")
    return Connection(
        server=(entry.server if "://" in entry.server else f"http://{entry.server}").rstrip("/"),
        credentials=_build_credentials(*user, _exec_cluster_info(entry, authority), clock),
        certificate_authority=authority,
        insecure=entry.insecure_skip_tls_verify,
        tls_server_name=entry.tls_server_name,
        namespace=context.namespace or "default",
        context=name,
    )


def _build_credentials(entry: _User, file: Path, cluster: Mapping[str, Any], clock: Clock) -> Credentials:
    if entry.auth_provider is not None:
        raise ConfigError(f"{file}: auth-provider no longer exists in Kubernetes either: use exec")
    certificate = _read_data_or_file(
        file, "client-certificate", entry.client_certificate_data, entry.client_certificate
    )
    key = _read_data_or_file(file, "client-key", entry.client_key_data, entry.client_key)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise ConfigError(f"{file}: a user has no {missing}: certificate and key belong together")
    base = Credential(_authorization_header(entry), certificate, key, tuple(_impersonation_headers(entry)))
    if entry.token_file:
        return TokenFile(file.parent / entry.token_file, clock, base)
    if entry.exec is not None and not base.authorization:
        shown_cluster = cluster if entry.exec.provide_cluster_info else None
        return ExecPlugin(_check_exec_command(file, entry.exec), clock, base, shown_cluster)
    return StaticCredentials(base)


def _authorization_header(user: _User) -> str:
    if user.token:
        return f"Bearer {user.token.strip()}"
    if user.username or user.password:
        return "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
    return ""


def _impersonation_headers(user: _User) -> Iterator[tuple[str, str]]:
    if user.as_:
        yield "impersonate-user", user.as_
    if user.as_uid:
        yield "impersonate-uid", user.as_uid
    for group in user.as_groups or ():
        yield "impersonate-group", group
    for name, values in (user.as_user_extra or {}).items():
        for value in values:
            yield f"impersonate-extra-{name}", value


def _check_exec_command(file: Path, command: ExecCommand) -> ExecCommand:
    """Return an exec plugin with its absolute path and its interactive mode; raise ConfigError if it is unusable."""
    if command.api_version not in EXEC_VERSIONS:
        known = " or ".join(EXEC_VERSIONS)
        raise ConfigError(f"{file}: exec: apiVersion {command.api_version!r} is unknown: use {known}")
    if not command.command:
        raise ConfigError(f"{file}: exec: there is no command")
    mode = command.interactive_mode or ("IfAvailable" if command.api_version.endswith("v1beta1") else "")
    if mode not in {"Never", "IfAvailable", "Always"}:
        raise ConfigError(f"{file}: exec: interactiveMode must be Never, IfAvailable or Always")
    path = str(file.parent / command.command) if os.sep in command.command else command.command
    return structs.replace(command, command=path, interactive_mode=mode)


def _exec_cluster_info(cluster: _Cluster, authority: bytes) -> Mapping[str, Any]:
    """Return the cluster information for an exec plugin: server, TLS settings, authority, the plugin's settings."""
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for each in cluster.extensions if isinstance(cluster.extensions, list) else ():
        if isinstance(each, dict) and each.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = each.get("extension")
    return info


def _read_data_or_file(kubeconfig: Path, what: str, data: str, path: str) -> bytes:
    """Return the decoded `<what>-data`, else the file's content, else empty bytes; raise ConfigError if unusable."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{kubeconfig}: {what}-data is not base64: {error}") from None
    return _read_file(kubeconfig.parent / path, f"the {what}") if path else b""


def _read_file(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {what} {path}: {error.strerror or error}") from None
