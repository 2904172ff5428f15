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
    return any(map(_is_piece_of_json, ast.walk(ast.parse(path.read_text()))))


def _is_piece_of_json(node: ast.AST) -> bool:
    """Return whether an expression is JSON as bytes: a literal, or a string with quotes that is encoded."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bytes) and _JSON.search(node.value) is not None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "encode"):
        return False
    parts = node.func.value.values if isinstance(node.func.value, ast.JoinedStr) else [node.func.value]
    return any(isinstance(part, ast.Constant) and '"' in str(part.value) for part in parts)


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


@pytest.mark.req("W.5")
@pytest.mark.parametrize("encoded", ["f'\"{name}\"'.encode()", "'\"spec\":'.encode()"])
def test_a_piece_of_json_that_is_encoded_is_recognized(encoded: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"MARK = {encoded}\n")
    assert _has_pieces_of_json(module)
