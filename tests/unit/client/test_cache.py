"""The cache of an informer agrees with the server whatever it is sent, and indexes and changes agree with the cache."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Change, WatchEvent, key_of
from mooring.client.cache import Cache

NAMES = ["a", "b", "c", "d"]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, str, str, bool]]:
    """Draw a history of (name, node or empty for a deletion, uid, whether a list shows it)."""
    step = st.tuples(
        st.sampled_from(NAMES), st.sampled_from(["", "n1", "n2"]), st.sampled_from(["1", "2"]), st.booleans()
    )
    return draw(st.lists(step, max_size=30))


@given(histories())
@settings(max_examples=100, deadline=None)
def test_cache_indexes_and_changes_agree(history: list[tuple[str, str, str, bool]]) -> None:
    cache: Cache[Pod] = Cache()
    by_node = cache.index("node", lambda pod: [pod.spec.node_name])
    server: dict[str, Pod] = {}
    replayed: dict[str, Pod] = {}
    for version, (name, node, uid, listed) in enumerate(history):
        key = f"prod/{name}"
        before = server.get(key)
        if node:
            meta = ObjectMeta(name=name, namespace="prod", uid=uid, resource_version=str(version))
            server[key] = Pod(metadata=meta, spec=PodSpec(node_name=node))
        else:
            server.pop(key, None)
        if listed:
            changes = cache.replace(server.values())
        elif node:
            changes = cache.apply([WatchEvent("MODIFIED" if before else "ADDED", server[key])])
        else:
            changes = cache.apply([WatchEvent("DELETED", before)] if before else [])
        for change in changes:
            _replay(replayed, change)
    assert cache.objects == server == replayed
    assert {node: sorted(map(key_of, by_node.get(node))) for node in by_node.values()} == _by_node(server)


def _replay(objects: dict[str, Pod], change: Change[Pod]) -> None:
    """Apply a notification as a counting handler would: `old` must be exactly what it knows."""
    key = key_of(change.object)
    assert objects.pop(key, None) is change.old
    if change.new is not None:
        objects[key] = change.new


def _by_node(objects: dict[str, Pod]) -> dict[str, list[str]]:
    nodes = {pod.spec.node_name for pod in objects.values()}
    return {node: sorted(key for key, pod in objects.items() if pod.spec.node_name == node) for node in nodes}


def test_an_index_that_is_made_late_has_what_is_there() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([Pod(metadata=ObjectMeta(name="a", labels={"app": "web"}))])
    index = cache.index("app", lambda pod: pod.metadata.labels.values())
    assert (index.count("web"), index.count("db")) == (1, 0)


def test_keys_are_written_as_kubernetes_writes_them() -> None:
    assert key_of(Pod(metadata=ObjectMeta(name="a", namespace="prod"))) == "prod/a"
    assert key_of(Pod(metadata=ObjectMeta(name="a"))) == "a"
