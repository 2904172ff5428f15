"""Which resource a path names, for a server that remembers collections."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion
from mooring.api.kinds import CustomKindInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.routes import Routes, resolve

pytestmark = pytest.mark.req("S.4")

_SCHEME = Scheme()
_WORDS = (
    *("api", "apis", "v1", "apps", "namespaces", "default", "pods", "nodes", "deployments", "resourceclaims"),
    *("resource.k8s.io", "status", "scale", "proxy", "watch", "-", "", "web", "log"),
)
_paths = st.lists(st.sampled_from(_WORDS), max_size=8).map(lambda words: "/" + "/".join(words))
_likely = st.builds(
    "{}/{}{}".format,
    st.sampled_from(["/api/v1", "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/x", "/apis/apps/v1"]),
    st.sampled_from(["pods", "nodes", "deployments", "namespaces", "secrets"]),
    st.sampled_from(
        ["", "/", "/web", "/web/", "/web/status", "/web/proxy", "/web/proxy/a/b", "/web/scale", "/web/x/y"]
    ),
)


@given(st.lists(st.one_of(_likely, _paths), max_size=30))
def test_paths_name_the_same_whatever_was_asked_for_before(paths: list[str]) -> None:
    routes = Routes(_SCHEME)
    for path in paths:
        assert routes.resolve(path) == resolve(_SCHEME, path)


def test_a_kind_that_is_gone_is_forgotten() -> None:
    scheme = Scheme()
    routes, path = Routes(scheme), "/apis/example.com/v1/namespaces/default/widgets"
    assert routes.resolve(path) is None
    pod = scheme.kind("v1", "Pod")
    assert pod is not None
    facts = CustomKindInfo(
        "", "", CustomResourceDefinition(), CustomResourceDefinitionVersion(served=True), lambda obj, _: obj
    )
    kind = replace(pod, group="example.com", version="v1", kind="Widget", plural="widgets", custom=facts)
    scheme.register([kind], kind)
    assert [found and found.kind for found in (routes.resolve(path), routes.resolve(path))] == [kind, kind]
    scheme.unregister(kind.family)
    assert routes.resolve(path) is None
