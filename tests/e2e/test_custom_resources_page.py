"""The page about custom resources, typed word for word with kubectl."""

from pathlib import Path

import pytest

from kubectl_caller import KUBECTL
from running_up import running_up
from typed_console import ROOT, Step, console, steps

PAGE = ROOT / "docs" / "custom-resources.md"


@pytest.mark.req("X.1", "X.3", "X.5", "X.6")
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert KUBECTL, "the page needs kubectl"
    with running_up("--ephemeral", "--single-process") as plane, console(tmp_path) as shell:
        shell.type(Step(f"export KUBECONFIG={plane.kubeconfig}", []))
        for step in steps(PAGE):
            shell.type(step)
