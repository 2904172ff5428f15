"""What Tab offers, asked as a shell asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from mooring.cli.main import mooring
from mooring.testing import RunningControlPlane


def offered(*words: str) -> list[str]:
    *arguments, incomplete = words
    complete = ShellComplete(mooring, {}, "mooring", "_MOORING_COMPLETE")
    return [item.value for item in complete.get_completions(arguments, incomplete)]


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with RunningControlPlane(nodes=2, without=["scheduler", "controllers"]) as plane:
        yield plane.kubeconfig


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["expl"], ["explain"]),
        (["gates", "--emulation-version", "1.3"], ["1.37", "1.36", "1.35", "1.34", "1.33", "1.32", "1.31", "1.30"]),
        (["gates", "--min-compatibility-version", "1.30"], ["1.30"]),
        (["audit", "--disable-gate", "TaintTolerationNode"], ["TaintTolerationNodeAffinityCEL"]),
        (
            ["gates", "--feature-gates", "X=true,TaintTolerationNode"],
            ["X=true,TaintTolerationNodeAffinityCEL=true", "X=true,TaintTolerationNodeAffinityCEL=false"],
        ),
    ],
    ids=" ".join,
)
def test_words_that_are_known_are_offered(words: list[str], expected: list[str]) -> None:
    assert offered(*words) == expected


@pytest.mark.parametrize(
    ("incomplete", "expected"),
    [("", ["node-0", "node-1"]), ("node-1", ["node-1"]), ("node-1,no", ["node-1,node-0", "node-1,node-1"])],
)
def test_nodes_of_the_cluster_are_offered(kubeconfig: Path, incomplete: str, expected: list[str]) -> None:
    assert offered("simulate", "--kubeconfig", str(kubeconfig), "--drain", incomplete) == expected


def test_the_node_to_copy_is_offered(kubeconfig: Path) -> None:
    assert offered("simulate", "--kubeconfig", str(kubeconfig), "--like", "node-1") == ["node-1"]


def test_where_there_is_no_cluster_nothing_is_offered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert offered("simulate", "--kubeconfig", str(tmp_path / "none"), "--drain", "") == []
    assert capsys.readouterr() == ("", "")
