"""A server that may not take more memory refuses writes in words, and still deletes."""

import subprocess
import sys

import pytest

from app_calls import Caller
from mooring.base import memory

pytestmark = pytest.mark.req("S.6")
MAPS = "/api/v1/namespaces/default/configmaps"
LIMITED = """
import resource
from mooring.base.memory import has_room_for
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + 64 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
print(has_room_for(2**20), has_room_for(128 * 2**20))
"""


def test_a_limit_on_the_address_space_is_noticed_before_it_is_met() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "False"]


async def test_writes_are_refused_and_deletes_are_not(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await call("POST", MAPS, {"metadata": {"name": "c"}})).status == 201
    monkeypatch.setattr(memory, "has_room_for", lambda _: False)
    refused = await call("POST", MAPS, {"metadata": {"name": "d"}})
    assert (refused.status, refused.json["reason"]) == (503, "ServiceUnavailable")
    assert "too little memory" in refused.message
    assert (await call("GET", MAPS)).status == 200
    assert (await call("DELETE", f"{MAPS}/c")).status == 200
