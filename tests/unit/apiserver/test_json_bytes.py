"""The layout of stored JSON is known to one module of the API server, and to one of the client."""

import ast
import re
from pathlib import Path

import pytest

import mooring

SOURCE = Path(mooring.__file__).parent
LAYOUT = {"apiserver/output/json_bytes.py", "client/lean_pods.py"}
_JSON = re.compile(rb'"\w+":|[{,]"\w|[\]}]}|^[{}]+$')


def _has_pieces_of_json(path: Path) -> bool:
    constants = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return any(isinstance(value, bytes) and _JSON.search(value) is not None for value in constants)


@pytest.mark.req("W.5")
def test_two_modules_have_pieces_of_json_as_bytes() -> None:
    modules = [path for package in ("apiserver", "client") for path in (SOURCE / package).rglob("*.py")]
    assert {str(path.relative_to(SOURCE)) for path in modules if _has_pieces_of_json(path)} == LAYOUT


@pytest.mark.req("W.5")
@pytest.mark.parametrize("literal", [b'"metadata":{', b"}]}}", b'{"a', b"{"])
def test_a_piece_of_json_is_recognized(literal: bytes, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"MARK = {literal!r}\n")
    assert _has_pieces_of_json(module)
