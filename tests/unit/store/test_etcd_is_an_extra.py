"""SQLite needs no gRPC; the error about an etcd without it says what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

_WITHOUT = """
import sys
for name in ("grpc", "google"):
    sys.modules[name] = None
from mooring.cli.main import main
sys.argv = ["mooring", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "words",
    [
        ["apiserver", "--etcd-servers", "http://127.0.0.1:9", "--port", "0"],
        ["store", "stats", "etcd://127.0.0.1:9"],
    ],
    ids=["a server", "a tool"],
)
def test_what_to_install_is_reported(words: list[str], tmp_path: Path) -> None:
    more = ["--data-dir", str(tmp_path)] if words[0] == "apiserver" else []
    done = subprocess.run([sys.executable, "-c", _WITHOUT, *words, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "pip install 'kube-mooring[etcd]'" in done.stderr
    assert "Traceback" not in done.stderr
