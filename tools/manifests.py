"""Write manifests from their only sources: `make manifests`.

The ClusterRole of the chart is what `mooring rights` prints; `deploy/bridge`, for `kubectl apply -k`, is the chart's.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from mooring.advisor.snapshot.rights import reader_role

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
HELM = Path(sys.executable).parent / "helm"
NAMESPACE = "mooring-bridge"
_FLAGS = {
    "bridge/rights.yaml": (),
    "bridge/bridge.yaml": (),
    "bridge/webhooks.yaml": (),
    "bridge/network-policy.yaml": ("--set", "bridge.apiServers={192.0.2.0/28}"),
    "bridge-with-policy/policy.yaml": ("--set", "bridge.policy=true"),
}
_NOTE = "# From deploy/chart, by `make manifests`.\n"


def rendered() -> Iterator[tuple[Path, str]]:
    """Yield every file with its text; each is written before the next is made."""
    role = yaml.safe_dump(reader_role(), sort_keys=False, default_flow_style=None, width=1000)
    yield DEPLOY / "chart" / "templates" / "reader.yaml", f"# What `mooring rights` prints.\n{role}"
    for name, flags in _FLAGS.items():
        template = f"templates/bridge/{Path(name).name}"
        command: list[str | Path] = [
            HELM,
            "template",
            "mooring",
            DEPLOY / "chart",
            "-n",
            NAMESPACE,
            "-s",
            template,
            *flags,
        ]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - helm
        yield DEPLOY / name, _NOTE + re.sub(r"\A---\n|# Source: .*\n", "", text)


if __name__ == "__main__":
    for path, text in rendered():
        path.write_text(text)
