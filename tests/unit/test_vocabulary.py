"""Names, docstrings and comments use the words of docs/glossary.md, and refer to files and modules that exist."""

import ast
import io
import itertools
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mooring"
FOLDERS = ("src", "benchmarks", "tools", "docs", "examples", "tests")

REFUSED = {
    r"told|tells": "send, notify, report, log, record, respond",
    r"judge[ds]?|judging|judgements?": "validate (API rules), admit (requests), evaluate (expressions, filters)",
    r"alike": "identical, from the same template, with the same pod signature; both",
    r"anew": "again; recompute, rebuild, relist, retry",
    r"whoever|somebody|someone else|nobody|those who": "client, caller, watcher, writer, controller, user",
    r"comes? to be|came to be|what (?:it )?(?:comes|came) to": "result, sum, become",
    r"in vain": "miss; without a result",
    r"made up": "generated (names), invented",
    r"reckon\w*": "count, compute, account for",
    r"but for": "except",
    r"behind (?:it|them|him|these|those|this|that|which|each other|one another)": "after",
    r"as what": "as the kind, role or value that is meant",
}
REFUSED_IN_NAMES = r"told|tells|judged?s?|judging|alike|anew|whoever|somebody|nobody|reckon\w*|oddity|oddities"

# Beginnings and phrases that make a docstring a riddle, by what it describes. "any" is also for attributes and modules.
INCOMPLETE = {
    "any": {
        r"^(\.\.\.|…)|\.\.\.$": "it continues another docstring",
        r"^(They|These|Those|Them|That|Their|Its?|Others?|Such)\b": "it begins with a pronoun instead of a noun",
        r"^(Return |Yield |Do )?the same\b": "the reader does not see what it is the same as",
        r"\bso (many|much|long|often|few)\b(?! (that|as)\b)": "name the number or the unit",
        r"^(Does?|Holds?|Keeps?|Carry out|Carries) what\b": "name what it does or holds",
    },
    "attribute": {r"^(Of|And|Or|But)\b": "it is part of a sentence"},
    "function": {
        r"^(How|Which|What|Where|Who|When|Why)\b": "it begins with a question instead of a verb",
        r"^(Of|And|Or|But|By|For|As|In|On|With|Without|The|An?|All|Another|Every)\b": "it does not begin with a verb",
    },
    "class": {r"^(How|Which|What|Where|Who|When|Why|Whether)\b": "it begins with a question instead of a noun"},
}

_PARTICIPLE = re.compile(r"[a-z]+ed|done|shown|known|chosen|taken|given|seen|kept|held|found|made")
# Verbs that only look like participles.
_VERBS_IN_ED = {"feed", "need", "embed", "proceed", "succeed", "shed", "seed", "speed", "exceed", "bleed", "reseed"}
# Participles that are right as names, each with its reason.
_NAMED_BY_PARTICIPLE = {
    "required": "field.Required of Kubernetes",
    "unauthorized": "errors.NewUnauthorized of Kubernetes",
    "expired": "errors.NewResourceExpired of Kubernetes",
    "enabled": "featuregate.Enabled of Kubernetes",
    "masked": "the function masked() of CEL",
    "fixed": "a constructor of a cost, read as a noun: fixed(1)",
    "scaled": "a constructor of a cost, read as a noun: scaled(SIZE, 0.1)",
    "made": "a public name of mooring.testing.builders",
    "served": "Client.served, a public name of mooring.client",
    "unguarded": "Client.unguarded, a public name of mooring.client",
    "normalized": "ScorePlugin.normalized, the plugin API of docs/scheduler-plugins.md",
    "placed": "Cluster.placed, the plugin API of docs/scheduler-plugins.md",
    "done": "workqueue.Done of client-go",
}

# Uses that are right, each with its reason. The key is matched together with its surroundings.
EXCEPTIONS = {
    r"uid 65534|nobody:|user nobody|`nobody`": "the Unix user of this name",
    r"behind (?:it|them) (?:in the queue|in line)": "a queue has a place behind",
}

PAGES_NOT_CHECKED = {
    "glossary.md": "lists the refused words",
}

# File names in examples, which are no files of the tree.
EXAMPLE_FILES = {"webhook.py": "a user's program in an image map (controllers/programs)"}

_WORDS = re.compile(rf"\b({'|'.join(REFUSED)})\b", re.IGNORECASE)
_NAMES = re.compile(rf"(?:^|_)({REFUSED_IN_NAMES})(?:_|$)")
_MAYBE = re.compile(f"{_WORDS.pattern}|{REFUSED_IN_NAMES}", re.IGNORECASE)
_EXCEPTED = re.compile("|".join(EXCEPTIONS), re.IGNORECASE)
_IMPORTS = re.compile(r"^ *(?:from|import) .*", re.MULTILINE)
_QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"", re.DOTALL)


@cache
def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("the files of a release are those of the repository, where this is checked")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring, also those of attributes and constants, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each run of comment lines as one text, with its first line."""
    first, last, lines = 0, -2, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                if lines:
                    yield first, " ".join(lines)
                first, lines = token.start[0], []
            lines.append(token.string.lstrip("# "))
            last = token.start[0]
    if lines:
        yield first, " ".join(lines)


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every name that is bound: functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def refused_words(text: str) -> list[str]:
    """Return the refused words of a docstring or comment, outside quotations and excepted phrases."""
    prose = _EXCEPTED.sub("", _QUOTED.sub("", text))
    return [" ".join(word.split()) for word in _WORDS.findall(" ".join(prose.split()))]


def refused_parts(name: str) -> list[str]:
    """Return the refused words of an identifier, in snake case or camel case."""
    return _NAMES.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


@pytest.mark.req("L.1")
def test_names_docstrings_and_comments_use_the_words_of_the_glossary() -> None:
    found = []
    for path in _tracked("*.py"):
        if path == Path(__file__):
            continue
        source = path.read_text()
        if not _MAYBE.search(" ".join(source.replace("#", " ").split())):
            continue  # most files need no parsing
        tree = ast.parse(source)
        for line, text in [*docstrings(tree), *comments(source)]:
            found += [f"{path.relative_to(ROOT)}:{line}: {word!r} in {text[:60]!r}" for word in refused_words(text)]
        for line, name in defined_names(tree):
            found += [f"{path.relative_to(ROOT)}:{line}: {word!r} in {name}" for word in refused_parts(name)]
    assert found == [], "docs/glossary.md has the words to use instead"


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every string literal with a space in it that is not a docstring, with its line."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text and id(node) not in documents:
                yield node.lineno, text


@pytest.mark.req("L.1")
def test_messages_and_scripts_use_the_words_of_the_glossary() -> None:
    found = []
    for path in _tracked("src/*.py", "src/*.js", "src/*.html"):
        source = path.read_text()
        if _MAYBE.search(source):
            texts = messages(ast.parse(source)) if path.suffix == ".py" else enumerate(source.splitlines(), 1)
            found += [
                f"{path.relative_to(ROOT)}:{line}: {word!r}" for line, text in texts for word in refused_words(text)
            ]
    assert found == [], "docs/glossary.md has the words to use instead"


@pytest.mark.req("L.1")
def test_pages_use_the_words_of_the_glossary() -> None:
    found = []
    for path in _tracked("*.md"):
        if path.name in PAGES_NOT_CHECKED:
            continue
        prose = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), path.read_text(), flags=re.DOTALL)
        for number, line in enumerate(prose.splitlines(), 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {word!r}" for word in refused_words(line)]
    assert found == [], "docs/glossary.md has the words to use instead"


@pytest.mark.req("L.1")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Pods that look alike are judged once.", ["alike", "judged"]),
        ("Return None when somebody was faster.", ["somebody"]),
        ("Searches in vain.", ["in vain"]),
        ("Everything but for the name.", ["but for"]),
        ("The line\nbut\nfor one.", ["but for"]),
        ("Send `same_template_results` as the user typed it.", []),
        ("Run as the user nobody.", []),
        ("A server behind a load balancer.", []),
    ],
)
def test_refused_words_are_found_in_prose(text: str, words: list[str]) -> None:
    assert refused_words(text) == words


@pytest.mark.req("L.1")
@pytest.mark.parametrize(
    ("name", "words"),
    [("judged", ["judged"]), ("_is_told", ["told"]), ("NobodyAsks", ["nobody"]), ("ledger", []), ("is_stolid", [])],
)
def test_refused_words_are_found_in_names(name: str, words: list[str]) -> None:
    assert refused_parts(name) == words


@pytest.mark.req("L.1")
def test_the_glossary_lists_every_refused_word() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    first_words = [re.split(r"[|\[(?\\]", pattern)[0] for pattern in REFUSED]
    assert [word for word in first_words if word.strip() not in glossary] == []


def described(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the kind and the docstring of everything that has one; the kinds are those of `INCOMPLETE`."""
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                text = ast.get_docstring(node)
                if text is not None:
                    yield getattr(node, "lineno", 1), _kind(node), text
        for statement, following in itertools.pairwise(getattr(node, "body", None) or []) if _has_block(node) else ():
            match statement, following:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                    yield following.lineno, "attribute", text


def _has_block(node: ast.AST) -> bool:
    return isinstance(getattr(node, "body", None), list)


def _kind(node: ast.AST) -> str:
    match node:
        case ast.ClassDef():
            return "class"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            return "property" if is_property else "function"
        case _:
            return "module"


def riddles(kind: str, docstring: str) -> list[str]:
    """Return why a reader who sees nothing but this docstring cannot understand it."""
    text = " ".join(_QUOTED.sub("``", docstring).split())
    patterns = INCOMPLETE["any"] | INCOMPLETE.get(kind, {})
    return [why for pattern, why in patterns.items() if re.search(pattern, text, re.IGNORECASE)]


@pytest.mark.req("L.1")
def test_docstrings_are_understood_alone_and_functions_are_not_named_by_a_participle_alone() -> None:
    found = []
    for path in _tracked("src/*.py"):
        name, tree = str(path.relative_to(ROOT)), ast.parse(path.read_text())
        for line, kind, text in described(tree):
            found += [f"{name}:{line}: {why}: {text[:80]!r}" for why in riddles(kind, text)]
        found += [f"{name}:{line}: name {each} by a verb and a noun" for line, each in participles(tree)]
    assert found == []


@pytest.mark.req("L.1")
@pytest.mark.parametrize(
    ("kind", "text", "is_riddle"),
    [
        ("attribute", "... or, while something goes wrong, with these.", True),
        ("attribute", "Those that need devices.", True),
        ("attribute", "Of the attempt that is being made.", True),
        ("attribute", "By plugin, weighted.", False),
        ("attribute", "Up to so many nodes are evaluated one by one.", True),
        ("function", "Return the same function for a custom kind.", True),
        ("function", "How long a pod waits.", True),
        ("function", "Whether a pod waits.", False),
        ("property", "The pods that wait.", False),
        ("class", "What the page shows.", True),
        ("class", "The pods that a page shows.", False),
        ("class", "Wait so long that a bookmark arrives.", False),
    ],
)
def test_docstrings_that_are_riddles_are_found(kind: str, text: str, is_riddle: bool) -> None:
    assert bool(riddles(kind, text)) == is_riddle


def participles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the functions named by a participle alone; properties and `is_` predicates may be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _kind(node) == "function":
            word = node.name.strip("_")
            if _PARTICIPLE.fullmatch(word) and word not in _VERBS_IN_ED | _NAMED_BY_PARTICIPLE.keys():
                yield node.lineno, node.name


def _exists(reference: str, near: Path) -> bool:
    """Whether a path such as `store/kv.py` exists below the folder of a file or one of the folders above it."""
    return any((folder / reference).exists() for folder in [*near.parents, SOURCE] if folder.is_relative_to(ROOT))


def _is_module(dotted: str) -> bool:
    """Whether `mooring.a.b.Name` is a module, or a name bound in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        stem = (ROOT / "src").joinpath(*parts[:length])
        path = stem.with_suffix(".py") if stem.with_suffix(".py").exists() else stem / "__init__.py"
        if path.exists() or stem.is_dir():
            rest = parts[length:]
            return not rest or (path.exists() and re.search(rf"\b{re.escape(rest[0])}\b", path.read_text()) is not None)
    return False


def wrong_references(text: str, near: Path) -> list[str]:
    """Return the references to Python files and modules in a text that lead nowhere."""
    files = re.findall(r"(?<![\w/.*<-])((?:\w+/)*\w+\.py)\b(?![\w(])", text)
    modules = re.findall(r"(?<![\w.:/@-])(mooring(?!\.(?:dev|pyz)\b)(?:\.[A-Za-z_]\w*+)++)(?![(/-])", text)
    return [name for name in files if name not in EXAMPLE_FILES and not _exists(name, near)] + [
        name for name in modules if not _is_module(name)
    ]


@pytest.mark.req("L.2")
def test_references_between_modules_lead_somewhere() -> None:
    found = []
    for path in _tracked("src/*.py", "benchmarks/*.py", "tools/*.py"):
        source = path.read_text()
        if not wrong_references(_IMPORTS.sub("", source), path):
            continue  # most files need no parsing
        for line, text in [*docstrings(ast.parse(source)), *comments(source)]:
            found += [f"{path.relative_to(ROOT)}:{line}: {name}" for name in wrong_references(text, path)]
    assert found == []


@pytest.mark.req("L.2")
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("See `kv.py` and `store/kv.py`.", []),
        ("See `gone.py`.", ["gone.py"]),
        ("`mooring.store.kv.Store` is used by mooring.store.", []),
        ("`mooring.store.nothing` is not there.", ["mooring.store.nothing"]),
        ("The annotation constraints.mooring.dev/tolerations is no module.", []),
    ],
)
def test_wrong_references_are_found(text: str, wrong: list[str]) -> None:
    assert wrong_references(text, SOURCE / "store" / "sqlite.py") == wrong
