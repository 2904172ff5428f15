"""Tables of Kubernetes' own unit and integration tests, played on Mooring.

They are not ours and are not in this repository; where they are absent, the summary of the run says so.
"""

from pathlib import Path
from typing import Any

import pytest

import upstream_tables as upstream
from mooring.testing.replay import UnreadableFileError
from outside_data import KUBERNETES, UPSTREAM
from upstream_tables import accepted, checkout
from upstream_tables.go_objects import Scope
from upstream_tables.go_source import File, Parser, UnreadableError, tokens

pytestmark = pytest.mark.skipif(not UPSTREAM.is_dir(), reason=f"there are no tables of Kubernetes in {UPSTREAM}")


@pytest.mark.req("S.3", "4330.2", "5471.2")
def test_every_case_agrees_with_kubernetes_or_its_difference_is_accepted() -> None:
    used: set[accepted.Accepted] = set()
    result = upstream.play_all(UPSTREAM, used=used, is_live=True)
    assert result.failed == []
    assert result.passed >= 1510
    assert set(accepted.ACCEPTED) - used == set(), "these accepted differences no longer occur: remove them"


@pytest.mark.req("S.3")
@pytest.mark.skipif(KUBERNETES is None, reason="there is no checkout of Kubernetes (MOORING_KUBERNETES)")
def test_tables_in_the_source_of_kubernetes_agree_as_well() -> None:
    assert KUBERNETES is not None
    result = checkout.play(KUBERNETES)
    assert result.failed == []
    assert result.passed >= 180
    assert len(result.left_out) <= 36, "the reader of Go understands less than it did"


SOURCE = """
package x

const (
\tlow, high = int32(1), int32(2)
)

var table = []*v1.Pod{
\tst.MakePod().Name("a").Req(map[v1.ResourceName]string{v1.ResourceCPU: "2"}).Priority(high).Obj(), // a comment
\tnamed("b"),
}

func named(name string) *v1.Pod {
\tpod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
\tpod.Spec.NodeName = "n" + name
\treturn pod
}
"""


def test_go_literals_builders_and_short_functions_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.go").write_text(SOURCE)
    file = File(tmp_path / "x.go")
    scope = Scope(file.functions(), dict(file.variables()))
    requests = {"requests": {"cpu": "2"}}
    container = {"name": "con0", "image": "pause", "resources": requests}
    assert scope.evaluate(file.variable("table")) == [
        {"metadata": {"name": "a"}, "spec": {"containers": [container], "priority": 2}},
        {"metadata": {"name": "b"}, "spec": {"nodeName": "nb"}},
    ]


@pytest.mark.parametrize("text", ["unknown()", "st.MakePod().Strange()", "pkg.Constant", "a.b().c()"])
def test_what_go_source_means_is_never_guessed(text: str) -> None:
    with pytest.raises(UnreadableError):
        Scope({}).evaluate(Parser(tokens(text)).expression())


@pytest.mark.parametrize("content", ["{", "[1]", '{"other": []}', '[{"name": "no test"}]'])
def test_a_file_that_is_no_table_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "tolerations.json").write_text(content)
    with pytest.raises(UnreadableFileError, match=r"tolerations\.json"):
        upstream.play(tmp_path, upstream.OFFLINE, ["tolerations"])


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnreadableFileError, match=r"no such table; known are .*tolerations"):
        upstream.play(UPSTREAM, upstream.OFFLINE, ["nonsense"])


def test_a_case_that_raises_is_one_failure_and_the_rest_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: dict[str, Any]) -> str | None:
        raise ValueError(case["name"])

    result = upstream.play(UPSTREAM, {**upstream.OFFLINE, "tolerations": broken}, ["tolerations", "untolerated"])
    assert len(result.failed) == 42
    assert "ValueError" in result.failed[0]
    assert result.passed == 10
