"""The README's tour, typed word for word into a shell beside a running `mooring up`."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from running_up import running_up

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
STEPS = [
    (first.strip(), [line for line in rest if line.strip()])
    for block in BLOCKS
    for first, *rest in (step.splitlines() for step in re.split(r"^\$ ", block, flags=re.MULTILINE) if step.strip())
]
_SECONDS = 20.0


def _shown(line: str, printed: str) -> bool:
    """Whether a line of the README was printed: `…` stands for anything, and blanks for any number of them."""
    pattern = r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())
    return re.search(pattern, printed) is not None


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with running_up("--data-dir", str(home / ".mooring"), "--nodes", "5"):
        yield home


def test_the_tour_does_what_the_readme_says(home: Path) -> None:
    assert len(STEPS) > 10
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # `.venv/bin`, as the first line of the tour has it
    environment = {**os.environ, "HOME": str(home), "PATH": path, "KUBECONFIG": str(home / ".mooring/admin.kubeconfig")}
    for command, expected in STEPS:
        deadline = time.monotonic() + _SECONDS
        while True:
            done = subprocess.run(
                ["/bin/bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            printed = done.stdout + done.stderr
            missing = [line for line in expected if not _shown(line, printed)]
            # What shows a state is asked again until it has come about; what changes something is said once.
            if not missing or not command.startswith("kubectl get") or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert missing == [], f"$ {command}\n{printed}"
        assert done.returncode == 0 or command.startswith("mooring"), f"$ {command}\n{printed}"
