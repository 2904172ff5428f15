"""`mooring plan` of a new Deployment on a dump with 500 nodes and 10,000 running pods that all differ.

python -m benchmarks plan       the whole command, four times: the first run also compiles what has changed

The aim: less than 2 s by the clock on an idle machine.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import varied_pods

NODES, PODS = 500, 10_000
_MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 20
  selector: {matchLabels: {app: new}}
  template:
    metadata: {labels: {app: new}}
    spec:
      containers: [{name: c, image: "web:2", resources: {requests: {cpu: 100m, memory: 128Mi}}}]
"""


def _running_pod(number: int) -> dict[str, Any]:
    pod = varied_pods.pod("mix", number, number)
    pod["metadata"]["uid"] = f"uid-{number}"
    pod["spec"] |= {"nodeName": f"node-{number % NODES}", "priority": 0}
    pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return pod


def main() -> None:
    items = [*map(varied_pods.node, range(NODES)), *map(_running_pod, range(PODS))]
    with tempfile.TemporaryDirectory() as folder:
        dump, manifest = Path(folder) / "dump.json", Path(folder) / "web.yaml"
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        manifest.write_text(_MANIFEST)
        command = [sys.executable, "-m", "mooring", "plan", "-f", str(manifest), "--from", str(dump)]
        print(f"{'nodes':>6} {'pods':>7} {'s':>6} {'cpu s':>6}")
        for _ in range(4):
            begun, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            print(f"{NODES:>6} {PODS:>7} {time.perf_counter() - begun:>6.2f} {cpu:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
