"""What kubectl reads out of the OpenAPI document of version 2, which it takes as protobuf."""

import pytest

from kubectl_caller import Kubectl

pytestmark = pytest.mark.req("S.1")
GATEWAY = '{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "x"}}'


def test_a_kind_that_does_not_exist_is_reported(kubectl: Kubectl) -> None:
    said = kubectl("apply", "-f", "-", stdin=GATEWAY, code=1)
    assert 'no matches for kind "Gateway" in version "gateway.networking.k8s.io/v1"' in said


def test_fields_are_explained(kubectl: Kubectl) -> None:
    said = kubectl("explain", "pod.spec.tolerations", "--output=plaintext-openapiv2")
    assert "RESOURCE: tolerations <[]Object>" in said
    assert "tolerationSeconds\t<integer>" in said
