"""What every test may use. Tests that take minutes are marked `slow` and run with `make test-full`.

Where there is no kubectl or no browser, tests that drive it are skipped; in CI that would hide a gap, so there the run
is refused.
"""

import gc
import logging
import os
import shutil
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

import outside_data
import statement_coverage
from etcd_servers import EtcdServers, etcd_cluster
from waiting_tests import deal_waiting_tests_first


def pytest_configure(config: pytest.Config) -> None:
    if statement_coverage.COVERAGE:
        config.pluginmanager.register(statement_coverage.COVERAGE)
    if os.environ.get("CI") and shutil.which("kubectl") is None:
        raise pytest.UsageError("the end-to-end tests need kubectl on the PATH")
    if os.environ.get("CI") and outside_data.chromium() is None:
        raise pytest.UsageError("the tests of the dashboard need chromium on the PATH: .ci/run installs it")
    # kubectl and other programs in Go spend 30 % less processor time when they collect garbage less often.
    os.environ.setdefault("GOGC", "400")
    # `nohup` and `&` leave Ctrl-C ignored, also in the commands under test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Examples may take as long as they do: how long that is depends on what else the machine has to do.
    patient = settings(settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("patient", patient)
    settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests stay until the end: to look through them for garbage would take a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("MOORING_FULL"):
        slow = {item for item in items if item.get_closest_marker("slow")}
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    if worker := getattr(config, "workerinput", None):
        items[:] = deal_waiting_tests_first(items, worker["workercount"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = outside_data.absent()
    if missing:
        terminalreporter.write_line(f"Not run, for outside data that is not here: {'; '.join(missing)}")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Where a test or a command in it says how to log, later tests of the same process do not."""
    ours = logging.getLogger("mooring")
    before, propagate, handlers = _own_levels(), ours.propagate, list(ours.handlers)
    yield
    ours.propagate, ours.handlers[:] = propagate, handlers
    for name, level in _own_levels().items():
        if level != before.get(name, logging.NOTSET):
            logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def _own_levels() -> dict[str, int]:
    known = logging.root.manager.loggerDict
    return {
        name: log.level for name, log in known.items() if name.startswith("mooring") and isinstance(log, logging.Logger)
    }


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    """Yield an etcd of one member that tests share, each with a prefix of its own: `etcd.fresh()`."""
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers
