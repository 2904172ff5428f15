import pytest

from mooring.base.natural_sort import natural_key


@pytest.mark.parametrize(
    "names",
    [
        ["node-1", "node-2", "node-10"],
        ["1", "2", "a", "a-1-b-2", "a-1-b-10", "a-2-b-1"],
        ["node", "node-0", "node-00", "node-1"],
        ["", "x" + "1" * 250, "x" + "2" * 250],
    ],
    ids=["numbers at the end", "numbers anywhere", "zeros", "nothing and very long numbers"],
)
def test_numbers_in_names_count_as_numbers(names: list[str]) -> None:
    assert [natural_key(name) for name in names] == sorted(natural_key(name) for name in names)
