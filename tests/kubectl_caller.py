"""Runs the real kubectl against a running server: `kubectl("get", "pods", "-o", "wide")` returns what it printed."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KUBECTL = shutil.which("kubectl")
_SECONDS = 60


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig and a namespace."""

    kubeconfig: Path
    namespace: str = "default"

    def __call__(self, *words: str, stdin: str = "", code: int | None = 0) -> str:
        """Return what a command prints, to either stream; it must end with `code` (None: any)."""
        done = self.run(*words, stdin=stdin)
        printed = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"kubectl {' '.join(words)}: {printed}"
        return printed

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        assert KUBECTL is not None
        # -n stands in front, so that a test can override it with -A or another -n
        command = [KUBECTL, "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *words]
        environment = {**os.environ, "KUBECACHEDIR": str(self.kubeconfig.parent / "kubectl-cache")}
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment
        )

    def shell(self, script: str) -> str:
        """Return a line for the shell as a manual has it, with `kubectl` in it."""
        assert KUBECTL is not None
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{Path(KUBECTL).parent}:{os.environ.get('PATH', '')}",
        }
        done = subprocess.run(
            ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment
        )
        return done.stdout + done.stderr

    def apply(self, *objects: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
        """`kubectl apply -f -` of some objects."""
        return self("apply", *flags, "-f", "-", stdin="\n".join(map(json.dumps, objects)))

    def get(self, *words: str) -> dict[str, Any]:
        """`kubectl get … -o json` as a tree."""
        tree: dict[str, Any] = json.loads(self("get", *words, "-o", "json"))
        return tree
