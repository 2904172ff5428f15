"""Kubeconfig files: found and merged as kubectl does, and clear about what is wrong with them."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.client import ConfigError
from mooring.client.credentials import Credential, ExecPlugin, StaticCredentials, TokenFile
from mooring.client.kubeconfig import in_cluster, load
from mooring.testing.clock import MockClock


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(
    name: str = "a",
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a kubeconfig in which cluster, user and context have the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **more}}],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


async def credential_of(path: Path, **options: Any) -> Credential:
    return await load(path, **options).credentials.current()


def test_an_explicit_file_is_read_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "one", config("a", namespace="prod"))
    other = write(tmp_path / "other", config("b"))
    connection = load(path, environment={"KUBECONFIG": str(other)})
    assert (connection.server, connection.namespace, connection.context) == ("https://a:6443", "prod", "a")


def test_without_any_wish_the_file_in_the_home_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config("home"))
    assert load(environment={"HOME": str(tmp_path)}).context == "home"


def test_several_files_are_merged_and_the_first_to_say_something_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "1", config("shared", cluster={"server": "https://first"}, current=""))
    second = write(tmp_path / "2", config("second"))
    third = write(tmp_path / "3", config("shared", cluster={"server": "https://third"}))
    environment = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}::{second}:{third}:{first}"}
    assert load(environment=environment).context == "second"
    assert load(context="shared", environment=environment).server == "https://first"


def test_a_context_may_join_entries_of_different_files(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {"contexts": [{"name": "x", "context": {"cluster": "b", "user": "b"}}]})
    second = write(tmp_path / "2", config("b"))
    assert load(context="x", environment={"KUBECONFIG": f"{first}:{second}"}).server == "https://b:6443"


async def test_relative_paths_start_from_the_folder_of_their_file(tmp_path: Path) -> None:
    write(tmp_path / "etc" / "ca.pem", "CA")
    write(tmp_path / "etc" / "cert.pem", "CERT")
    write(tmp_path / "etc" / "key.pem", "KEY")
    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    path = write(tmp_path / "etc" / "config", config(cluster={"certificate-authority": "ca.pem"}, user=user))
    assert load(path).certificate_authority == b"CA"
    credential = await credential_of(path)
    assert (credential.certificate, credential.key) == (b"CERT", b"KEY")


async def test_inline_data_wins_over_files(tmp_path: Path) -> None:
    user = {"client-certificate": "missing", "client-certificate-data": b64("CERT"), "client-key-data": b64("KEY")}
    cluster = {"certificate-authority": "missing", "certificate-authority-data": b64("CA")}
    path = write(tmp_path / "config", config(cluster=cluster, user=user))
    assert load(path).certificate_authority == b"CA"
    assert (await credential_of(path)).certificate == b"CERT"


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param({"token": "t0"}, "Bearer t0", id="a token"),
        pytest.param({"username": "me", "password": "x"}, f"Basic {b64('me:x')}", id="a name and a password"),
        pytest.param({}, "", id="nothing"),
    ],
)
async def test_what_users_are_known_by(tmp_path: Path, user: dict[str, Any], authorization: str) -> None:
    assert (await credential_of(write(tmp_path / "config", config(user=user)))).authorization == authorization


async def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {"as": "eve", "as-uid": "u", "as-groups": ["g1", "g2"], "as-user-extra": {"why": ["fun"]}}
    credential = await credential_of(write(tmp_path / "config", config(user=user)))
    assert credential.headers == (
        ("impersonate-user", "eve"),
        ("impersonate-uid", "u"),
        ("impersonate-group", "g1"),
        ("impersonate-group", "g2"),
        ("impersonate-extra-why", "fun"),
    )


def test_the_kind_of_credentials(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}
    found = [
        type(load(write(tmp_path / "config", config(user=user))).credentials)
        for user in ({"tokenFile": "t"}, {"exec": plugin}, {"exec": plugin, "token": "t"})
    ]
    assert found == [TokenFile, ExecPlugin, StaticCredentials]


def test_tls_settings(tmp_path: Path) -> None:
    connection = load(
        write(tmp_path / "config", config(cluster={"insecure-skip-tls-verify": True, "tls-server-name": "api"}))
    )
    assert (connection.insecure, connection.tls_server_name) == (True, "api")


def test_fields_without_a_value_and_unknown_ones_do_no_harm(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Config\npreferences: {}\nusers: null\ncurrent-context: a\nextensions: []\n"
    text += "contexts: [{name: a, context: {cluster: a, user: '', namespace: null}}]\n"
    text += "clusters: [{name: a, cluster: {server: 'https://a/', disable-compression: true}}]\n"
    assert load(write(tmp_path / "config", text)).server == "https://a"


async def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    for name, content in (("token", "t0\n"), ("ca.crt", "CA"), ("namespace", "prod")):
        write(tmp_path / name, content)
    connection = in_cluster(
        {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path, MockClock()
    )
    assert (connection.server, connection.namespace) == ("https://[fd00::1]:443", "prod")
    assert (await connection.credentials.current()).authorization == "Bearer t0"


def test_nothing_of_a_credential_is_shown() -> None:
    assert "secret" not in repr(Credential("Bearer secret", b"secret", b"secret", (("a", "secret"),)))


@dataclass
class Wrong:
    id: str
    content: Any
    message: str
    context: str = ""


_EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}
WRONG = [
    Wrong("no YAML", "{", "config: "),
    Wrong("no kubeconfig", "- a", "is no kubeconfig"),
    Wrong("another kind", {"kind": "Pod"}, "its kind is 'Pod'"),
    Wrong("a mistyped field", {"clusters": "x"}, "is no kubeconfig: Expected `array"),
    Wrong("no current context", config(current=""), "no current-context: choose one of a"),
    Wrong("an empty file", "", "no current-context: choose one of none"),
    Wrong("an unknown context", config(), "there is no context 'b'; there are: a", "b"),
    Wrong("an unknown cluster", {**config(), "clusters": []}, "names the cluster 'a', which is not there"),
    Wrong("an unknown user", {**config(), "users": []}, "names the user 'a', which is not there"),
    Wrong("two of one name", {**config(), "users": [{"name": "a"}, {"name": "a"}]}, "two users named 'a'"),
    Wrong("no server", config(cluster={"server": ""}), "the cluster 'a' has no server"),
    Wrong("a proxy", config(cluster={"proxy-url": "http://p"}), "proxy-url, which is not supported"),
    Wrong("a missing file", config(cluster={"certificate-authority": "nope"}), "cannot read the certificate-authority"),
    Wrong("bad base64", config(cluster={"certificate-authority-data": "%"}), "-authority-data is not base64"),
    Wrong(
        "trust nobody and everybody",
        config(cluster={"certificate-authority-data": b64("CA"), "insecure-skip-tls-verify": True}),
        "remove one of them",
    ),
    Wrong("a certificate without key", config(user={"client-certificate-data": b64("C")}), "has no client-key"),
    Wrong("an auth-provider", config(user={"auth-provider": {"name": "gcp"}}), "use exec"),
    Wrong("an old exec", config(user={"exec": {**_EXEC, "apiVersion": "x/v1alpha1"}}), "is unknown: use client.auth"),
    Wrong("an exec without command", config(user={"exec": {**_EXEC, "command": ""}}), "there is no command"),
    Wrong("an exec without mode", config(user={"exec": {**_EXEC, "interactiveMode": ""}}), "interactiveMode must be"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_what_is_wrong_is_said_with_the_file(case: Wrong, tmp_path: Path) -> None:
    path = write(tmp_path / "config", case.content)
    with pytest.raises(ConfigError) as caught:
        load(path, case.context)
    assert case.message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_without_any_kubeconfig_the_message_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no .*\.kube/config; give --kubeconfig FILE or set KUBECONFIG"):
        load(environment={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"cannot read the kubeconfig .*nope: No such file"):
        load(tmp_path / "nope")
