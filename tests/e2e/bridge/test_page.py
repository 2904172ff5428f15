"""The page about the bridge, typed word for word on a control plane that knows none of the new words."""

from pathlib import Path

import pytest

from e2e.bridge.conftest import STOCK
from kubectl_caller import KUBECTL
from running_up import running_up
from typed_console import ROOT, Step, console, steps

PAGE = ROOT / "docs" / "bridge.md"


@pytest.mark.req("B.2", "B.6", "B.10")
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert KUBECTL, "the page needs kubectl"
    with (
        running_up("--ephemeral", "--single-process", "--nodes", "3", "--feature-gates", STOCK) as plane,
        console(tmp_path) as shell,
    ):
        shell.type(Step(f"export KUBECONFIG={plane.kubeconfig}", []))
        for step in steps(PAGE):
            shell.type(step)
