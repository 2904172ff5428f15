"""The cache of compiled programs: bounded, shared by threads, and forgetful of errors."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mooring.cel.cache import ProgramCache

pytestmark = pytest.mark.req("5500.7")


def test_an_expression_is_compiled_once() -> None:
    compiled: list[str] = []

    def compile_expression(expression: str) -> str:
        compiled.append(expression)
        return expression.upper()

    cache = ProgramCache(compile_expression)
    assert [cache.get("a"), cache.get("b"), cache.get("a")] == ["A", "B", "A"]
    assert compiled == ["a", "b"]
    assert (cache.hits, cache.misses) == (1, 2)


def test_what_was_used_last_stays() -> None:
    cache = ProgramCache(str.upper, size=2)
    for expression in ("a", "b", "a", "c", "a", "b"):
        cache.get(expression)
    assert len(cache) == 2
    assert (cache.hits, cache.misses) == (2, 4)


def test_an_error_is_not_remembered() -> None:
    asked: list[str] = []

    def compile_expression(expression: str) -> str:
        asked.append(expression)
        if len(asked) == 1:
            raise ValueError("not yet")
        return "program"

    cache = ProgramCache(compile_expression)
    with pytest.raises(ValueError, match="not yet"):
        cache.get("a")
    assert cache.get("a") == "program"
    assert (cache.hits, cache.misses) == (0, 2)


def test_threads_wait_for_one_compilation() -> None:
    started, go = threading.Event(), threading.Event()
    compiled: list[str] = []

    def compile_expression(expression: str) -> str:
        compiled.append(expression)
        started.set()
        assert go.wait(5)
        return expression.upper()

    cache = ProgramCache(compile_expression)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get, "a")
        assert started.wait(5)
        others = [pool.submit(cache.get, "a") for _ in range(3)]
        while cache.misses < 4:
            pass
        go.set()
        assert [each.result(5) for each in (first, *others)] == ["A"] * 4
    assert compiled == ["a"]


def test_threads_share_the_error_of_one_compilation() -> None:
    go = threading.Event()

    def compile_expression(expression: str) -> str:
        assert go.wait(5)
        raise ValueError(expression)

    cache = ProgramCache(compile_expression)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(cache.get, "a") for _ in range(2)]
        while cache.misses < 2:
            pass
        go.set()
        assert all(isinstance(each.exception(5), ValueError) for each in waiting)


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one program"):
        ProgramCache(str.upper, size=0)
