"""The syntax of names: which pass, and the words for those that do not."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import names
from mooring.api.field_path import Path

Check = Callable[[str], names.Messages]


@dataclass(frozen=True)
class Case:
    check: Check
    right: list[str]
    wrong: dict[str, list[str]]

    @property
    def id(self) -> str:
        return self.check.__name__


LABEL_NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
PREFIX_HINT = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
CASES = [
    Case(
        names.dns1123_label,
        ["a", "a-1", "1", "x" * 63],
        {
            "": [LABEL],
            "A": [LABEL],
            "a-": [LABEL],
            "a\n": [LABEL],
            "a.b": ["must not contain dots"],
            "x" * 64: ["must be no more than 63 characters"],
            "É" * 40: ["must be no more than 63 characters", LABEL],
        },
    ),
    Case(
        names.dns1123_subdomain,
        ["a.b-c.1"],
        {"a..b": [SUBDOMAIN], ".a": [SUBDOMAIN], "x" * 254: ["must be no more than 253 characters"]},
    ),
    Case(
        names.label_key,
        ["a", "A_b.c-1", "example.com/a"],
        {
            "": ["name part must be non-empty", f"name part {LABEL_NAME}"],
            "a/": ["name part must be non-empty", f"name part {LABEL_NAME}"],
            "/a": ["prefix part must be non-empty"],
            "A/a": [f"prefix part {SUBDOMAIN}"],
            "a/b/c": [f"a valid label key {LABEL_NAME} {PREFIX_HINT}"],
            "x" * 64: ["name part must be no more than 63 bytes"],
        },
    ),
    Case(names.label_value, ["", "a", "A.1_b-c"], {"x" * 64: ["must be no more than 63 bytes"]}),
    Case(names.relaxed_env_var_name, ["1 a", "a.b"], {"": ["environment variable name must be non-empty"]}),
    Case(
        names.port_name,
        ["http", "a-1"],
        {
            "": [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
            ],
            "80": ["must contain at least one letter (a-z)"],
            "a--b": ["must not contain consecutive hyphens"],
            "-a": ["must not begin or end with a hyphen"],
            "abcdefghijklmnop": ["must be no more than 15 characters"],
        },
    ),
    Case(
        names.path_segment_name,
        ["a:b", "system:x"],
        {"..": ["may not be '..'"], "a/b%": ["may not contain '/'", "may not contain '%'"]},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_names(case: Case) -> None:
    assert [value for value in case.right if case.check(value)] == []
    assert {value: list(case.check(value)) for value in case.wrong} == case.wrong


REFUSED: list[tuple[Check, str]] = [
    (names.dns1035_label, "1a"),
    (names.dns1123_subdomain_with_underscore, "a_"),
    (names.wildcard_dns1123_subdomain, "example.com"),
    (names.c_identifier, "1a"),
    (names.env_var_name, "1a"),
    (names.env_var_name, ".."),
    (names.relaxed_env_var_name, "a=b"),
    (names.relaxed_env_var_name, "é"),
    (names.config_map_key, "a/b"),
    (names.config_map_key, "..a"),
    (names.http_header_name, "a b"),
    (names.condition_reason, "1"),
    (names.percent, "%"),
]


@pytest.mark.parametrize(("check", "value"), REFUSED, ids=lambda part: getattr(part, "__name__", part))
def test_refused(check: Check, value: str) -> None:
    [message] = check(value)
    assert message


ACCEPTED: list[tuple[Check, str]] = [
    (names.dns1035_label, "a-1"),
    (names.dns1123_subdomain_with_underscore, "_a.b_c"),
    (names.wildcard_dns1123_subdomain, "*.example.com"),
    (names.c_identifier, "_a1"),
    (names.env_var_name, "A.b-c_1"),
    (names.config_map_key, ".a_b-C"),
    (names.http_header_name, "X-Y"),
    (names.condition_reason, "A,B:C_"),
    (names.percent, "25%"),
]


@pytest.mark.parametrize(("check", "value"), ACCEPTED, ids=lambda part: getattr(part, "__name__", part))
def test_accepted(check: Check, value: str) -> None:
    assert check(value) == ()


def test_numbers_have_ranges() -> None:
    assert names.port_number(0) == ("must be between 1 and 65535, inclusive",)
    assert names.user_id(2**31) == ("must be between 0 and 2147483647, inclusive",)
    assert names.port_number(65535) == names.user_id(0) == names.user_id(2**31 - 1) == ()


def test_labels_are_validated_at_the_path_of_the_map() -> None:
    errors = names.validate_labels({"a": "b", "/c": "x!"}, Path("metadata").child("labels"))
    assert [error.field for error in errors] == ["metadata.labels", "metadata.labels"]


def test_a_generated_name_may_end_in_a_dash() -> None:
    assert names.dns1123_subdomain(names.as_generated_name("web-")) == ()
    assert names.as_generated_name("web") == "web"


@pytest.mark.parametrize(("name", "count"), [("", 1), ("a.b", 1), ("a.b.c", 0), ("A.b.c", 1), ("a/b", 1)], ids=repr)
def test_fully_qualified_names(name: str, count: int) -> None:
    assert len(names.validate_fully_qualified_name(name, Path("signerName"))) == count


@pytest.mark.parametrize(("value", "count"), [("", 1), ("a", 1), ("a.io/b", 0), ("A/b", 1), ("a.io/b c", 1)])
def test_domain_prefixed_paths(value: str, count: int) -> None:
    assert len(names.validate_domain_prefixed_path(value, Path("name"))) == count


_texts = st.text(alphabet="aZ9-._/é", max_size=6)


@given(st.lists(st.dictionaries(_texts, _texts, max_size=4), max_size=4))
def test_labels_are_validated_equally_whether_they_were_seen_before_or_not(maps: list[dict[str, str]]) -> None:
    path = Path("labels")
    for labels in [*maps, *maps]:
        expected = []
        for key, value in labels.items():
            expected += names.validate(path, key, names.label_key(key))
            expected += names.validate(path, value, names.label_value(value))
        assert names.validate_labels(labels, path) == expected


@given(
    st.text(alphabet="aZ9-._/é\n", max_size=8) | st.from_regex(r"[a-z.]{0,255}/?[A-Za-z.]{0,65}", fullmatch=True),
    _texts,
)
def test_a_label_is_sound_where_nothing_is_wrong_with_it(key: str, value: str) -> None:
    assert names.is_valid_label(key, value) == (not names.label_key(key) and not names.label_value(value))
    assert names.is_valid_label("a", key) == (not names.label_value(key))


@given(st.text(alphabet="aZ9-._é\n", max_size=5) | st.from_regex(r"[a.]{250,256}", fullmatch=True))
def test_a_key_of_a_config_map_is_sound_where_nothing_is_wrong_with_it(key: str) -> None:
    assert names.is_valid_config_key(key) == (not names.config_map_key(key))
