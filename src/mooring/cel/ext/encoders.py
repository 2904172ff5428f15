"""The encoders library: base64, decoded with or without padding."""

import base64
import binascii
from typing import Final

from mooring.cel.costs import STRING, CallCost, arg, scaled
from mooring.cel.errors import EvaluationError
from mooring.cel.library import Library, Overload, function
from mooring.cel.types import BYTES
from mooring.cel.types import STRING as TEXT


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError("illegal base64 data") from error


_READ: Final = CallCost(scaled(arg(0), STRING))

ENCODERS: Final = Library(
    "encoders",
    functions=(
        function("base64.encode", Overload("base64_encode_bytes", (BYTES,), TEXT, encode, cost=_READ)),
        function("base64.decode", Overload("base64_decode_string", (TEXT,), BYTES, decode, cost=_READ)),
    ),
)
