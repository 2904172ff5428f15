"""Texts of pods that are read along the form of others come out as if they had been taken apart."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.apiserver.registry.pods.like_updates import _taken_apart
from mooring.apiserver.registry.pods.pod_words import Form, Forms, form_of

pytestmark = pytest.mark.req("S.4")
Texts = tuple[bytes, bytes, bytes]
_NOW = b"2026-01-01T00:01:00Z"
_VERSION = 7
_UID = "00000000-0000-0000-0000-00000000000{}"


def _texts(**own: Any) -> Texts:
    """A pod, its update, and what follows: with its own words, which stand in more than one place."""
    words = {"name": "web-a", "uid": _UID.format(0), "node": "n-1", "ip": "10.0.0.1", "host": "10.1.0.1"}
    words |= {"container": "a", "at": "2026-01-01T00:00:00Z", "label": "web", "version": str(_VERSION)} | own
    again = {"hostname": words["name"], "second ip": words["ip"], "ending": ""} | own
    meta = {"name": words["name"], "uid": words["uid"], "creationTimestamp": words["at"], "labels": {"app": "web"}}
    status = {
        "hostIP": words["host"],
        "podIP": words["ip"],
        "podIPs": [{"ip": again["second ip"]}],
        "startTime": words["at"],
        "containerStatuses": [{"containerID": f"containerd://{words['container'] * 64}"}],
    }
    spec = {"nodeName": words["node"], "hostname": again["hostname"]}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}
    wanted = {**meta, "resourceVersion": words["version"], "labels": {"app": words["label"]}}
    update = {**pod, "metadata": wanted}
    return _written(pod), _written(update), again["ending"].encode()


def _written(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _learned(*known: Texts) -> Forms:
    forms = Forms()
    for texts in known:
        apart = _taken_apart(texts, _VERSION, _NOW)
        assert apart is not None
        forms.known[apart[0]] = form_of(texts, apart[2])
    return forms


def _names(form: str) -> st.SearchStrategy[str]:
    return st.sampled_from([form.format(letter * size) for letter in "ab" for size in (1, 2, 3)] + ["web", "web-a"])


_OWN = st.fixed_dictionaries(
    {},
    optional={
        "name": _names("web-{}"),
        "uid": st.sampled_from([_UID.format(2), _UID.format(3), _UID.format("x"), "1"]),
        "node": _names("n-{}"),
        "ip": st.sampled_from(["10.0.0.2", "10.0.0.12", "10.1.0.1", "256.0.0.1", "fd00::1", ""]),
        "host": st.sampled_from(["10.1.0.2", "10.1.0.22", "10.0.0.1"]),
        "container": st.sampled_from("bcx"),
        "at": st.sampled_from(["2026-01-01T00:00:01Z", "2026-99-01T00:00:00Z", "2027-01-01T00:00:00Z"]),
        "label": st.sampled_from(["web", "webs", "web-a", "n-1"]),
        "version": st.sampled_from(["", "7", "8", "77"]),
        "hostname": _names("web-{}"),
        "second ip": st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    },
)
_SPOILT = st.one_of(st.none(), st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=2)))


@pytest.mark.parametrize(
    "own",
    [
        {"name": "web_b"},
        {"name": "web-x"},
        {"name": "n-1"},
        {"name": "web-" + "b" * 60},
        {"uid": _UID.format("x")},
        {"node": "n_1"},
        {"ip": "10.1.0.1"},
        {"ip": "256.0.0.1"},
        {"second ip": "10.0.0.2"},
        {"at": "2026-99-01T00:00:00Z"},
        {"label": "wab-x"},
        {"version": "8"},
        {"hostname": "web-b"},
        {"ending": "{}"},
    ],
    ids=str,
)
def test_what_is_not_like_others_is_not_read_along_their_form(own: dict[str, str]) -> None:
    first = _texts(label="web-x")
    forms = _learned(first)
    assert forms.read(b"\0".join(first), _VERSION, _NOW) is not None
    assert forms.read(b"\0".join(_texts(**{"label": "web-x", **own})), _VERSION, _NOW) is None


@given(st.lists(st.tuples(_OWN, _SPOILT), max_size=20))
@example([({}, (125, b"\xff"))])
@example([({"name": "web-aa"}, None), ({"node": "n-11"}, None), ({"name": "web-aa"}, None)])
def test_whatever_is_read_along_a_form_is_what_it_is_taken_apart_into(
    turns: list[tuple[dict[str, str], tuple[int, bytes] | None]],
) -> None:
    first, other = _texts(), _texts(label="web-x")
    forms = _learned(first, other)
    for own, spoilt in turns:
        texts = _texts(**own)
        if spoilt is not None:
            at, instead = spoilt
            texts = (texts[0][:at] + instead + texts[0][at + len(instead) :], texts[1], texts[2])
        text = b"\0".join(texts)
        found = forms.read(text, _VERSION, _NOW)
        assert found == _learned(first, other).read(text, _VERSION, _NOW), "whatever was read before"
        if found is not None:
            said, words, order = found
            assert (said, order, words) == _taken_apart(texts, _VERSION, _NOW)


def test_one_whose_words_are_as_long_as_those_before_is_read_by_where_these_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms = _learned(_texts())
    before, same, longer = (b"\0".join(_texts(name=name, uid=_UID.format(1))) for name in ("web-b", "web-c", "web-dd"))
    assert forms.read(before, _VERSION, _NOW) is not None
    monkeypatch.setattr(Form, "pieces", lambda *_: None)
    assert forms.read(same, _VERSION, _NOW) is not None
    assert forms.read(longer, _VERSION, _NOW) is None
