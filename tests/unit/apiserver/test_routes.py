"""Which resource a path names while custom kinds come and go."""

from dataclasses import replace

import pytest

from mooring.api.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion
from mooring.api.kinds import CustomKindInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.routes import resolve

pytestmark = pytest.mark.req("S.4")


def test_a_kind_that_is_gone_is_forgotten() -> None:
    scheme = Scheme()
    path = "/apis/example.com/v1/namespaces/default/widgets"
    assert resolve(scheme, path) is None
    pod = scheme.kind("v1", "Pod")
    assert pod is not None
    facts = CustomKindInfo("", "", CustomResourceDefinition(), CustomResourceDefinitionVersion(served=True))
    kind = replace(pod, group="example.com", version="v1", kind="Widget", plural="widgets", custom=facts)
    scheme.register([kind], kind)
    assert [found and found.kind for found in (resolve(scheme, path), resolve(scheme, path))] == [kind, kind]
    scheme.unregister(kind.family)
    assert resolve(scheme, path) is None
