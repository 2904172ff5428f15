"""A webhook that is gone and wanted for everything: the server starts, says why it refuses, and can be helped."""

from pathlib import Path

import pytest

from started_server import Start, started

pytestmark = pytest.mark.req("X.9")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
DEAD = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "dead"},
    "webhooks": [
        {
            "name": "dead.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [EVERYTHING],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


async def test_a_server_starts_although_a_webhook_for_everything_is_dead(tmp_path: Path) -> None:
    async with started(tmp_path, Start()) as server:
        await server.create(CONFIGURATIONS, DEAD)
        code, refused = await server.ask("POST", MAPS, MAP)
        assert code == 500
        assert refused["message"] == (
            'Internal error occurred: failed calling webhook "dead.example.com": failed to call webhook: '
            'Post "https://127.0.0.1:1/?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
        )
    async with started(tmp_path, Start()) as server:
        assert (await server.ask("POST", MAPS, MAP))[0] == 500
        assert (await server.ask("DELETE", f"{CONFIGURATIONS}/dead"))[0] == 200
        assert (await server.ask("POST", MAPS, MAP))[0] == 201
