"""Credentials that change: token files and exec plugins."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.client import CredentialsError
from mooring.client.credentials import Credential, ExecCommand, ExecPlugin, ExecVariable, TokenFile
from mooring.testing.clock import MockClock

V1 = "client.authentication.k8s.io/v1"


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock, path = MockClock(), tmp_path / "token"
    path.write_text("one\n")
    tokens = TokenFile(path, clock)
    seen = [await tokens.current()]
    path.write_text("two")
    seen.append(await tokens.current())
    clock.advance(61)
    seen.append(await tokens.current())
    assert [each.authorization for each in seen] == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_rejected_token_is_worth_another_try_only_if_the_file_has_another(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    tokens = TokenFile(path, MockClock())
    await tokens.current()
    assert not tokens.reject()
    path.write_text("two")
    assert tokens.reject()
    assert (await tokens.current()).authorization == "Bearer two"


async def test_a_token_file_that_vanishes_leaves_the_last_token(tmp_path: Path) -> None:
    clock, path = MockClock(), tmp_path / "token"
    path.write_text("one")
    tokens = TokenFile(path, clock)
    await tokens.current()
    path.unlink()
    clock.advance(61)
    assert (await tokens.current()).authorization == "Bearer one"


@pytest.mark.parametrize("content", [None, "", " \n"], ids=["missing", "empty", "blank"])
async def test_a_token_file_without_a_token_is_an_error(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError, match="cannot read the token file"):
        await TokenFile(path, MockClock()).current()


@pytest.mark.parametrize(
    "credential",
    [
        pytest.param({"authorization": "Bearer a\r\nimpersonate-user: root"}, id="in a token"),
        pytest.param({"headers": (("impersonate-user", "a\nb"),)}, id="in a name"),
    ],
)
def test_a_line_break_cannot_smuggle_a_header(credential: dict[str, Any]) -> None:
    with pytest.raises(CredentialsError, match="no header may have"):
        Credential(**credential)


# -- exec plugins


def plugin(tmp_path: Path, program: str, clock: MockClock | None = None, **options: Any) -> ExecPlugin:
    """Return a plugin in Python, which finds its own folder in `here` and counts its runs there."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        "runs = here / 'runs'\n"
        "runs.write_text((runs.read_text() if runs.exists() else '') + 'x')\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def show(**status):\n"
        f"    print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential', 'status': status}}))\n{program}\n"
    )
    options = {"interactive_mode": "Never", **options}
    cluster = options.pop("cluster", None)
    command = ExecCommand(sys.executable, V1, [str(script)], **options)
    return ExecPlugin(command, clock or MockClock(), Credential(headers=(("impersonate-user", "eve"),)), cluster)


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


async def test_a_plugin_gets_the_request_and_its_token_is_kept(tmp_path: Path) -> None:
    exec_plugin = plugin(
        tmp_path,
        "show(token=json.dumps([info['kind'], info['apiVersion'], info['spec'], os.environ['EXTRA']]))",
        env=[ExecVariable("EXTRA", "more")],
        cluster={"server": "https://a"},
    )
    first, second = await asyncio.gather(exec_plugin.current(), exec_plugin.current())
    reported = json.loads(first.authorization.removeprefix("Bearer "))
    assert reported == ["ExecCredential", V1, {"interactive": False, "cluster": {"server": "https://a"}}, "more"]
    assert first == second
    assert first.headers == (("impersonate-user", "eve"),)
    assert runs(tmp_path) == 1, "two who ask at once make it run once"


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    credential = await plugin(tmp_path, "show(clientCertificateData='CERT', clientKeyData='KEY')").current()
    assert (credential.certificate, credential.key, credential.authorization) == (b"CERT", b"KEY", "")


async def test_a_plugin_runs_again_when_its_credential_expires_or_is_rejected(tmp_path: Path) -> None:
    clock = MockClock()
    exec_plugin = plugin(tmp_path, "show(token=runs.read_text(), expirationTimestamp='2026-01-01T01:00:00Z')", clock)
    await exec_plugin.current()
    clock.advance(3580)
    await exec_plugin.current()
    assert runs(tmp_path) == 1
    clock.advance(15)
    assert (await exec_plugin.current()).authorization == "Bearer xx"
    assert exec_plugin.reject()
    await exec_plugin.current()
    assert runs(tmp_path) == 3


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("sys.exit(3)", "ended with exit code 3", id="it fails"),
        pytest.param("print('hello')", "what it printed is no ExecCredential", id="it prints something else"),
        pytest.param("print('{}')", "it printed ' ', expected", id="another kind"),
        pytest.param("show()", "neither a token nor a certificate", id="nothing in the status"),
        pytest.param("show(clientCertificateData='C')", "only one of", id="a certificate without key"),
        pytest.param("show(token='t', expirationTimestamp='soon')", "is not a time", id="no time"),
        pytest.param(
            f"print(json.dumps(dict(apiVersion='{V1}', kind='ExecCredential')))", "has no status", id="no status"
        ),
    ],
)
async def test_a_plugin_that_gives_nothing_is_an_error(program: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=message) as caught:
        await plugin(tmp_path, program, install_hint="Get it at example.com").current()
    assert "Get it at example.com" in str(caught.value)


async def test_a_plugin_that_is_not_installed_is_an_error() -> None:
    missing = ExecPlugin(ExecCommand("mooring-no-such-plugin", V1, interactive_mode="Never"), MockClock())
    with pytest.raises(CredentialsError, match="'mooring-no-such-plugin' gave no credentials: No such file"):
        await missing.current()


async def test_a_plugin_that_must_ask_needs_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="standard input is no terminal"):
        await plugin(tmp_path, "show(token='t')", interactive_mode="Always").current()
