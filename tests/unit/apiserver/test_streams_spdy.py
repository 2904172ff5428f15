"""SPDY as far as Kubernetes uses it: what a client sends is understood, and what no client sends does no harm."""

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.apiserver.streams.simulated.spdy import DICTIONARY, DataReceived, Spdy, SpdyError, StreamOpened

pytestmark = pytest.mark.req("N.8")


class Client:
    """Frames as a client makes them."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, *, last: bool = False, **headers: str) -> bytes:
        pairs = [text.encode() for pair in headers.items() for text in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in pairs)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", stream, 0, 0) + packed, flags=int(last))


def control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(payload)) + payload


def data(stream: int, payload: bytes, *, last: bool = False) -> bytes:
    return struct.pack(">II", stream, int(last) << 24 | len(payload)) + payload


def conversation() -> bytes:
    client = Client()
    return b"".join(
        [
            client.open(1, last=True, streamtype="error", port="80"),
            client.open(3, streamtype="data", port="80"),
            data(3, b"hello"),
            control(6, b"\0\0\0\1"),
            data(3, b" world", last=True),
        ]
    )


def test_the_dictionary_is_the_one_that_all_agree_on() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_a_conversation_is_the_same_however_it_is_cut(sizes: list[int]) -> None:
    spdy, rest, found = Spdy(), conversation(), []
    for size in sizes:
        found += spdy.receive(rest[:size])
        rest = rest[size:]
    found += spdy.receive(rest)
    opened = [event for event in found if isinstance(event, StreamOpened)]
    assert [(each.stream, each.headers["streamtype"], each.headers["port"]) for each in opened] == [
        (1, "error", "80"),
        (3, "data", "80"),
    ]
    received = [event for event in found if isinstance(event, DataReceived)]
    assert b"".join(each.data for each in received if each.stream == 3) == b"hello world"
    assert [(each.stream, each.last) for each in received if each.last] == [(1, True), (3, True)]
    assert bytes(spdy.outgoing) == control(6, b"\0\0\0\1")  # the ping comes back


def test_a_reply_and_data_can_be_read_by_a_client() -> None:
    spdy = Spdy()
    spdy.receive(Client().open(1, streamtype="stdout"))
    spdy.accept_stream(1)
    spdy.send(1, b"out", last=True)
    sent = bytes(spdy.outgoing)
    length = int.from_bytes(sent[5:8], "big")
    assert struct.unpack(">HHI", sent[:8])[:2] == (0x8003, 2)
    assert zlib.decompressobj(zdict=DICTIONARY).decompress(sent[12 : 8 + length]) == b"\0\0\0\0"
    assert sent[8 + length :] == data(1, b"out", last=True)


def test_a_frame_of_data_is_not_collected() -> None:
    spdy = Spdy()
    spdy.receive(Client().open(1, streamtype="stdin") + struct.pack(">II", 1, 2**24 - 1))
    assert [len(event.data) for event in spdy.receive(b"x" * 1000) if isinstance(event, DataReceived)] == [1000]
    assert spdy.receive(data(9, b"for nobody")[:4]) != []  # still within the same frame


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        (struct.pack(">HHI", 0x8003, 1, 2**24 - 1), "a control frame of 16777215 bytes"),
        (struct.pack(">HHI", 0x8002, 1, 10), "version 2"),
        (control(1, bytes(10) + b"no compression"), "cannot be read"),
        (control(1, bytes(10) + zlib.compress(bytes(10_000_000))), "without end"),
    ],
    ids=["a giant control frame", "another version", "garbage for headers", "a bomb of headers"],
)
def test_what_is_wrong_is_said(frames: bytes, why: str) -> None:
    with pytest.raises(SpdyError, match=why):
        Spdy().receive(frames)


def test_streams_are_limited_and_free_again_when_they_end() -> None:
    client, spdy = Client(), Spdy()
    for number in range(1, 400, 2):
        spdy.receive(client.open(number, streamtype="data"))
        spdy.send(number, b"", last=True)
    for number in range(401, 401 + 2 * 256, 2):
        spdy.receive(client.open(number, streamtype="data"))
    with pytest.raises(SpdyError, match="more than 256 streams"):
        spdy.receive(client.open(2001, streamtype="data"))


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_harmless(noise: bytes) -> None:
    spdy = Spdy()
    with suppress(SpdyError):
        spdy.receive(noise)
        spdy.receive(noise)
