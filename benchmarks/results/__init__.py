"""What was measured, kept as JSON beside this file, so that tables and plots are made of it and not by hand."""

from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One workload at one number of nodes. Times are in seconds, memory in MB."""

    workload: str
    nodes: int
    pods: int
    rate: float
    """Pods a second."""
    p50: float
    p90: float = 0.0
    p99: float
    ready_seconds: float = 0.0
    """Until the scheduler was ready."""
    busy_rate: float = 0.0
    """Pods per CPU second of the busier process: the rate on an otherwise idle machine."""
    scheduler_megabytes: float
    server_megabytes: float = 0.0
    load: float = 0.0
    """The machine's load average afterwards."""


def read(name: str) -> list[Row]:
    """Return the rows of a file, by workload in the order of their first measurement, then by number of nodes."""
    path = FOLDER / f"{name}.json"
    rows = msgspec.json.decode(path.read_bytes(), type=list[Row]) if path.exists() else []
    order = {workload: number for number, workload in enumerate(dict.fromkeys(row.workload for row in rows))}
    return sorted(rows, key=lambda row: (order[row.workload], row.nodes))


def keep(name: str, row: Row) -> None:
    """Put a row into a file, in place of an earlier one about the same."""
    same = (row.workload, row.nodes)
    rows = [each for each in read(name) if (each.workload, each.nodes) != same]
    index = max((i + 1 for i, each in enumerate(rows) if each.workload == row.workload), default=len(rows))
    rows.insert(index, _rounded(row))
    (FOLDER / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")


def _rounded(row: Row) -> Row:
    """To what may be more than noise."""
    times = {name: round(getattr(row, name), 6) for name in ("p50", "p90", "p99")}
    names = ("rate", "busy_rate", "ready_seconds", "scheduler_megabytes", "server_megabytes", "load")
    return msgspec.structs.replace(row, **times, **{name: round(getattr(row, name), 1) for name in names})
