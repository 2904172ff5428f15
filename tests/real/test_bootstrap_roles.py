"""The roles and bindings that Mooring begins with are those of a real kube-apiserver.

MOORING_REAL names a folder with binaries of Kubernetes 1.37.
"""

import json
from pathlib import Path

import pytest
from tools import bootstrap_roles

from eventually import eventually
from kubectl_caller import Kubectl
from real_cluster import missing, real_server

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.req("U.1")]


def written(kubectl: Kubectl) -> str:
    answer = kubectl("get", "clusterroles,clusterrolebindings,roles,rolebindings", "-A", "-o", "json")
    return bootstrap_roles.text(json.loads(answer)["items"])


def test_roles_and_bindings_are_what_a_new_server_writes(tmp_path: Path) -> None:
    with real_server(tmp_path) as kubectl:
        eventually(lambda: written(kubectl) == bootstrap_roles.FILE.read_text(), 60)
