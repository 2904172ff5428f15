"""How many resources a second lint validates: Deployments, Services and ConfigMaps, no two identical.

The target is 7,500 resources a second. YAML is read by libyaml in C; its events take half of the time. Run with
`python -m benchmarks lint`.
"""

import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from mooring.advisor.lint import Settings, runner, sources
from mooring.base import component

SETS = 2_000
TARGET = 7_500
SET = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{n}
  namespace: shop
  labels:
    app.kubernetes.io/name: web-{n}
    app.kubernetes.io/part-of: shop
spec:
  replicas: 3
  selector:
    matchLabels:
      app: web-{n}
  template:
    metadata:
      labels:
        app: web-{n}
    spec:
      containers:
        - name: web
          image: registry.example/web:1.4.{n}
          ports:
            - name: http
              containerPort: 8080
          env:
            - name: MODE
              value: "prod"
          resources:
            requests: {{cpu: 100m, memory: 128Mi}}
          livenessProbe:
            httpGet: {{path: /healthz, port: http}}
      tolerations:
        - key: sla
          operator: Gt
          value: "950"
          effect: NoSchedule
---
apiVersion: v1
kind: Service
metadata:
  name: web-{n}
  namespace: shop
spec:
  selector:
    app: web-{n}
  ports:
    - name: http
      port: 80
      targetPort: http
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web-{n}
  namespace: shop
data:
  settings.ini: |
    [server]
    port = 8080
    name = web-{n}
"""


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        layouts: dict[str, Callable[[Path, int], None]] = {
            "one YAML file": one_file,
            "a YAML file a set": _many_files,
            "one JSON list": json_list,
            "the same set over and over": _write_identical,
        }
        print(f"{'layout':<30}{'1 process':>12}{f'{cores} processes':>14}{'target':>10}   resources/s")
        for number, (title, write) in enumerate(layouts.items()):
            place = directory / str(number)
            place.mkdir()
            write(place, SETS)
            speeds = [_speed(place, jobs) for jobs in (1, cores)]
            print(f"{title:<30}{speeds[0]:>12,.0f}{speeds[1]:>14,.0f}{TARGET:>10,}")


def _speed(directory: Path, jobs: int) -> float:
    """Resources a second, the best of three runs, files read and processes started each time."""
    best = 0.0
    for _ in range(3):
        found = list(sources.find_sources([str(directory)]))
        start = time.perf_counter()
        report = runner.lint_files(found, Settings(component.resolve()), io.BytesIO(), jobs)
        best = max(best, report.documents / (time.perf_counter() - start))
        assert not report.findings
    return best


def _sets(number: int) -> list[str]:
    return [SET.format(n=each) for each in range(number)]


def one_file(directory: Path, sets: int) -> None:
    """All in one file."""
    (directory / "all.yaml").write_text("---\n".join(_sets(sets)))


def _many_files(directory: Path, sets: int) -> None:
    for number, text in enumerate(_sets(sets)):
        (directory / f"{number}.yaml").write_text(text)


def json_list(directory: Path, sets: int) -> None:
    """All in a List."""
    items = list(yaml.load_all("---\n".join(_sets(sets)), Loader=yaml.CSafeLoader))
    (directory / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def _write_identical(directory: Path, sets: int) -> None:
    (directory / "all.yaml").write_text("---\n".join([SET.format(n=0)] * sets))


if __name__ == "__main__":
    main()
