"""`examples/second-scheduler`, typed word for word beside a control plane whose own scheduler serves other pods."""

from pathlib import Path

import pytest

from kubectl_caller import KUBECTL
from running_up import running_up
from typed_console import ROOT, Step, console, steps

PAGE = ROOT / "examples" / "second-scheduler" / "README.md"


@pytest.mark.req("S.3")
def test_the_example_does_what_it_says(tmp_path: Path) -> None:
    assert KUBECTL, "the page needs kubectl"
    with running_up("--ephemeral", "--nodes", "2") as plane, console(tmp_path) as shell:
        shell.type(Step(f"export KUBECONFIG={plane.kubeconfig}", []))
        for step in steps(PAGE):
            shell.type(step)
