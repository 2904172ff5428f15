"""Execute the runs of an experiment on all cores or on a Dask cluster (`mooring[dask]`); store results."""

import hashlib
import importlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import msgspec

import mooring
from mooring.advisor.experiments.experiment_file import ExperimentError, RunSpec
from mooring.advisor.experiments.single_run import Job, run
from mooring.advisor.simulate.traces.results import Replayed


class Workers(Protocol):
    def results(self, jobs: Sequence[Job]) -> Iterator[Replayed]:
        """Yield the results of runs as they finish. Raise ExperimentError."""
        ...


class LocalWorkers:
    """Local processes; with one, runs are executed in this process."""

    def __init__(self, number: int | None = None) -> None:
        self._number = number or os.cpu_count() or 1

    def results(self, jobs: Sequence[Job]) -> Iterator[Replayed]:
        if self._number == 1 or len(jobs) == 1:
            yield from map(run, jobs)
            return
        with ProcessPoolExecutor(self._number, mp_context=get_context("spawn")) as pool:
            waiting = [pool.submit(run, job) for job in jobs]
            try:
                for future in as_completed(waiting):
                    yield future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class DaskWorkers:
    """The workers of a Dask cluster. They need the same version of Mooring, and see the files at the same paths."""

    def __init__(self, address: str) -> None:
        """`address` is that of the cluster's scheduler, such as `tcp://10.0.0.1:8786`. Raises ExperimentError."""
        try:
            distributed: Any = importlib.import_module("distributed")  # an extra, and not typed
        except ImportError as problem:
            raise ExperimentError("--dask needs Dask: install mooring[dask]") from problem
        try:
            self._client = distributed.Client(address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as problem:
            raise ExperimentError(f"--dask: there is no Dask scheduler at {address}: {problem}") from problem
        self._completed = distributed.as_completed

    def results(self, jobs: Sequence[Job]) -> Iterator[Replayed]:
        futures = [self._client.submit(run, job, pure=False) for job in jobs]
        try:
            for future in self._completed(futures):
                yield future.result()
        finally:
            self._client.cancel(futures)

    def close(self) -> None:
        self._client.close()


class Results:
    """The results in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"
        self._folder.mkdir(parents=True, exist_ok=True)

    def find(self, spec: RunSpec, digest: str) -> Replayed | None:
        """Return the result of a run, unless one of its inputs has changed."""
        try:
            found = msgspec.json.decode(self._place(spec.name).read_bytes(), type=Replayed)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.digest == digest else None

    def keep(self, result: Replayed) -> None:
        place = self._place(f"{result.cluster}.{result.workload}.{result.scheduler}.{result.seed}")
        partial = place.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(result))
        partial.replace(place)

    def _place(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def digest_of(spec: RunSpec) -> str:
    """Return a digest of parameters and file contents: equal for runs with the same result."""
    found = hashlib.blake2b(msgspec.json.encode((mooring.__version__, spec.without_folders())), digest_size=16)
    for path in spec.files():
        found.update(_content(str(path), path.stat().st_mtime_ns, path.stat().st_size))
    return found.hexdigest()


@lru_cache(4096)
def _content(path: str, _changed: int, _size: int) -> bytes:
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").digest()
