"""The decoded-object cache: one entry for each key and decoder, stale as soon as the revision differs."""

import pytest

from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.store.kv import KeyValue

pytestmark = pytest.mark.req("W.3")


class Decoder:
    def __init__(self) -> None:
        self.calls = 0

    def decode(self, kv: KeyValue) -> str:
        self.calls += 1
        return kv.value.decode()


def test_an_object_is_decoded_once_for_each_revision() -> None:
    cache, decoder = DecodedCache(), Decoder()
    first, second = KeyValue("/a", b"1", 1, 1), KeyValue("/a", b"2", 1, 2)
    assert [cache.get(kv, decoder.decode) for kv in (first, first, second, second)] == ["1", "1", "2", "2"]
    assert decoder.calls == 2


def test_decoders_do_not_see_each_others_values() -> None:
    cache, kv = DecodedCache(), KeyValue("/a", b"1", 1, 1)
    assert cache.get(kv, lambda kv: kv.value, "bytes") == b"1"
    assert cache.get(kv, lambda kv: int(kv.value), "number") == 1


def test_what_this_server_wrote_is_not_decoded_again() -> None:
    cache, decoder = DecodedCache(), Decoder()
    cache.put("/a", 7, decoder.decode, "written")
    assert cache.get(KeyValue("/a", b"x", 1, 7), decoder.decode) == "written"
    assert cache.get(KeyValue("/a", b"y", 1, 8), decoder.decode) == "y"
    assert decoder.calls == 1
