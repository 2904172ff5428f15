"""`docs/getting-started.md`, typed word for word into a shell; only the port is another."""

import re
from pathlib import Path

from free_ports import free_port
from kubectl_caller import KUBECTL
from typed_console import ROOT, Step, console, steps

PAGE = ROOT / "docs" / "getting-started.md"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert KUBECTL, "the page needs kubectl"
    port = free_port()
    with console(tmp_path) as shell:
        for step in steps(PAGE):
            command = re.sub(r"^mooring up", f"mooring up --port {port} --metrics-port -1", step.command)
            shell.type(Step(command, [line.replace("6443", str(port)) for line in step.expected]))
