"""Bearer tokens: from a file, and of service accounts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from app_calls import ADMIN, Answer, Caller, running
from mooring.apiserver.access import tokens
from mooring.apiserver.access.authn import TokenFile, TokenFileError
from mooring.apiserver.server import ApiServer
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.6")
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN = f"{ACCOUNTS}/bob/token"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
KEY = ec.generate_private_key(ec.SECP256R1())


# -- the file


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tokens.csv"
    path.write_text(text)
    return path


def test_a_line_is_token_user_uid_and_groups(tmp_path: Path) -> None:
    tokens = TokenFile.read(_file(tmp_path, '# who is who\ns3cret,jane,u1,"dev,ops"\nother, john ,u2\n'))
    jane, john = tokens.user("s3cret"), tokens.user("other")
    assert jane is not None
    assert john is not None
    assert (jane.username, jane.uid, jane.groups) == ("jane", "u1", ["dev", "ops", "system:authenticated"])
    assert (john.username, john.groups) == ("john", ["system:authenticated"])
    assert tokens.user("unknown") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s3cret,jane\n", ":1: expected token,user,uid"),
        ("a,b,c\n,jane,u\n", ":2: the token and the user must not be empty"),
        ("s3cret,jane,u\ns3cret,john,v\n", ":2: the same token stands in an earlier line"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported_without_its_tokens(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TokenFileError) as error:
        TokenFile.read(_file(tmp_path, text))
    assert problem in str(error.value)
    assert "s3cret" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match=r"cannot read .*none.csv"):
        TokenFile.read(tmp_path / "none.csv")


# -- the form of tokens


def test_what_was_signed_is_verified() -> None:
    assert tokens.verify_jwt(KEY.public_key(), tokens.sign_jwt(KEY, {"sub": "jane", "aud": ["a"]})) == {
        "sub": "jane",
        "aud": ["a"],
    }


def test_another_key_does_not_verify() -> None:
    with pytest.raises(tokens.JwtError, match="not from this server"):
        tokens.verify_jwt(ec.generate_private_key(ec.SECP256R1()).public_key(), tokens.sign_jwt(KEY, {}))


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=10_000), st.characters(codec="ascii"))
def test_no_changed_character_goes_unnoticed(position: int, character: str) -> None:
    token = tokens.sign_jwt(KEY, {"sub": "jane"})
    position %= len(token) - 1  # of the last character, some bits mean nothing
    changed = token[:position] + character + token[position + 1 :]
    if changed != token:
        with pytest.raises(tokens.JwtError):
            tokens.verify_jwt(KEY.public_key(), changed)


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c.d", "....", "e30.e30.", "e30.e30.AAAA", "ü.ü.ü", "a.b." + "x" * 20_000]
)
def test_garbage_is_refused(token: str) -> None:
    with pytest.raises(tokens.JwtError):
        tokens.verify_jwt(KEY.public_key(), token)


def test_no_algorithm_is_no_signature() -> None:
    header = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    with pytest.raises(tokens.JwtError, match="not signed with ES256"):
        tokens.verify_jwt(KEY.public_key(), f"{header}.{tokens.sign_jwt(KEY, {}).split('.')[1]}.")


# -- tokens of service accounts


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


@pytest.fixture
async def server(tmp_path: Path, clock: MockClock) -> AsyncIterator[ApiServer]:
    async with running(tmp_path, clock=clock, token_auth_file=_file(tmp_path, "s3cret,jane,u1,dev\n")) as found:
        yield found


@pytest.fixture
async def call(server: ApiServer) -> Caller:
    caller = Caller(server.app, ADMIN)
    assert (await caller("POST", ACCOUNTS, {"metadata": {"name": "bob"}})).status == 201
    return caller


async def _token(call: Caller, **spec: Any) -> str:
    answer = await call("POST", TOKEN, {"spec": spec})
    assert answer.status == 201, answer.body
    return str(answer.json["status"]["token"])


async def _who(call: Caller, token: str) -> Answer:
    return await call.as_anonymous()("POST", WHO, {}, authorization=f"Bearer {token}")


async def test_a_service_accounts_token_names_it(call: Caller) -> None:
    user = (await _who(call, await _token(call))).json["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:bob"
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert user["uid"]


async def test_a_token_of_the_file_names_its_user(call: Caller) -> None:
    user = (await _who(call, "s3cret")).json["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("jane", ["dev", "system:authenticated"])


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer ", "Basic amFuZTpw", "Bearer a.b.c"])
async def test_an_unknown_token_is_refused_and_not_anonymous(call: Caller, header: str) -> None:
    assert (await call.as_anonymous()("GET", "/version", authorization=header)).status == 401


async def test_a_token_expires(call: Caller, clock: MockClock) -> None:
    token = await _token(call, expirationSeconds=600)
    clock.advance(599)
    assert (await _who(call, token)).status == 201
    clock.advance(1)
    assert (await _who(call, token)).status == 401


async def test_a_token_ends_with_its_service_account(call: Caller) -> None:
    token = await _token(call)
    await call("DELETE", f"{ACCOUNTS}/bob")
    assert (await _who(call, token)).status == 401
    await call("POST", ACCOUNTS, {"metadata": {"name": "bob"}})  # the same name, another account
    assert (await _who(call, token)).status == 401


async def test_a_token_for_others_is_not_for_the_server(call: Caller) -> None:
    assert (await _who(call, await _token(call, audiences=["vault"]))).status == 401


async def test_a_token_of_a_pod_names_its_node_and_outlives_the_node(call: Caller) -> None:
    node = (await call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).json
    spec = {"serviceAccountName": "bob", "containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    token = await _token(call, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    extra = (await _who(call, token)).json["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == ["n"]
    assert extra["authentication.kubernetes.io/node-uid"] == [node["metadata"]["uid"]]
    await call("DELETE", "/api/v1/nodes/n")
    assert (await _who(call, token)).status == 201


async def test_a_bound_token_ends_with_its_pod(call: Caller) -> None:
    spec = {"serviceAccountName": "bob", "containers": [{"name": "c", "image": "i"}]}
    await call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    token = await _token(call, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    user = (await _who(call, token)).json["status"]["userInfo"]
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    await call("DELETE", "/api/v1/namespaces/default/pods/p")
    assert (await _who(call, token)).status == 401


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
        ({"boundObjectRef": {"kind": "Pod", "name": "none"}}, 404, 'pods "none" not found'),
        ({"boundObjectRef": {"kind": "Service", "name": "s"}}, 400, "cannot bind token to object of type /Service"),
    ],
)
async def test_what_cannot_be_had_is_refused(call: Caller, spec: dict[str, Any], code: int, message: str) -> None:
    answer = await call("POST", TOKEN, {"spec": spec})
    assert answer.status == code
    assert message in answer.message


async def test_a_token_of_no_account(call: Caller) -> None:
    answer = await call("POST", f"{ACCOUNTS}/none/token", {})
    assert (answer.status, answer.message) == (404, 'serviceaccounts "none" not found')


async def _review(call: Caller, token: str, *audiences: str) -> dict[str, Any]:
    body = {"spec": {"token": token, "audiences": list(audiences)}}
    answer = await call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
    assert answer.status == 201
    assert token not in answer.body.decode()
    status: dict[str, Any] = answer.json["status"]
    return status


async def test_a_token_review_says_whose_a_token_is(call: Caller) -> None:
    status = await _review(call, await _token(call, audiences=["vault"]), "vault", "other")
    assert status["authenticated"]
    assert status["user"]["username"] == "system:serviceaccount:default:bob"
    assert status["audiences"] == ["vault"]


async def test_a_token_review_says_why_a_token_is_nobodys(call: Caller) -> None:
    status = await _review(call, "nonsense")
    assert "authenticated" not in status
    assert status["error"] == "it has not the form of a JSON Web Token"


async def test_tokens_outlive_the_server(call: Caller, server: ApiServer, clock: MockClock) -> None:
    token = await _token(call)
    again = await ApiServer.open(server._config, store=server.store, clock=clock)
    assert (await _who(Caller(again.app), token)).status == 201
    for task in again._tasks:
        task.cancel()
