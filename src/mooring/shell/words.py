"""Scan the words of a script: quotes, escapes, variables and substitutions.

`Scanner` is the lower half of ``parser.py``, which it calls for the scripts inside `$(…)`.
"""

from collections.abc import Callable

from mooring.shell.syntax import Arithmetic, NotUnderstood, Part, Script, Substitution, Text, Variable, Word

_BLANK = " \t"
_ENDS = _BLANK + "\n;&|<>()"
_SPECIAL = "?$#@*0123456789!-"
DEEPEST = 40


class Scanner:
    """Reads words from a script, from a position that moves on."""

    def __init__(self, text: str, parse: Callable[[str, int], Script], depth: int) -> None:
        if depth > DEEPEST:
            raise NotUnderstood("scripts inside scripts, too deep")
        self.text = text.replace("\\\n", "")
        self.at = 0
        self._parse = parse
        self.depth = depth

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def skip_blanks(self) -> None:
        while self.peek() and self.peek() in _BLANK:
            self.at += 1
        if self.peek() == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def word(self) -> Word | None:
        """Return the next word; None if there is none."""
        self.skip_blanks()
        parts: list[Part] = []
        began = self.at
        while (letter := self.peek()) and letter not in _ENDS:
            if letter == "'":
                parts.append(Text(self._until("'"), quoted=True))
            elif letter == '"':
                self.at += 1
                parts += self._read_quoted()
            elif letter == "\\":
                parts.append(Text(self.peek(2)[1:], quoted=True))
                self.at += 2
            elif letter in "$`":
                parts.append(self._expansion(quoted=False))
            else:
                parts.append(Text(self._plain()))
        return tuple(parts) if self.at > began else None

    def _plain(self) -> str:
        began = self.at
        while self.peek() and self.peek() not in _ENDS + "'\"\\$`":
            self.at += 1
        return self.text[began : self.at]

    def _until(self, end: str) -> str:
        found = self.text.find(end, self.at + 1)
        if found < 0:
            raise NotUnderstood(f"a quote {end} that does not end")
        text = self.text[self.at + 1 : found]
        self.at = found + 1
        return text

    def _read_quoted(self) -> list[Part]:
        parts: list[Part] = []
        plain = ""
        while (letter := self.peek()) != '"':
            if not letter:
                raise NotUnderstood('a quote " that does not end')
            if letter == "\\" and self.peek(2)[1:] in tuple('$`"\\'):
                plain += self.peek(2)[1:]
                self.at += 2
            elif letter in "$`":
                parts += [Text(plain, quoted=True), self._expansion(quoted=True)]
                plain = ""
            else:
                plain += letter
                self.at += 1
        self.at += 1
        return [*parts, Text(plain, quoted=True)]

    def _expansion(self, *, quoted: bool) -> Part:
        if self.peek() == "`":
            return Substitution(self._parse(self._until("`"), self.depth + 1), quoted)
        if self.peek(3) == "$((":
            inside = self._between("((", "))")
            return Arithmetic(Scanner(inside, self._parse, self.depth + 1).all_quoted(), quoted)
        if self.peek(2) == "$(":
            return Substitution(self._parse(self._between("(", ")"), self.depth + 1), quoted)
        if self.peek(2) == "${":
            return self._parse_braced(self._between("{", "}"), quoted=quoted)
        self.at += 1
        name = self.peek()
        if name and name in _SPECIAL:
            self.at += 1
            return Variable(name, quoted=quoted)
        began = self.at
        while self.peek().isalnum() or self.peek() == "_":
            self.at += 1
        name = self.text[began : self.at]
        return Variable(name, quoted=quoted) if name else Text("$", quoted)

    def _parse_braced(self, inside: str, *, quoted: bool) -> Part:
        name, mark, default = inside.partition(":-")
        if not mark:
            name, mark, default = inside.partition("-")
        if not name.isidentifier() and name not in tuple(_SPECIAL):
            raise NotUnderstood(f"${{{inside}}}")
        word = Scanner(default, self._parse, self.depth + 1).all_quoted() if mark else None
        return Variable(name, word, quoted)

    def all_quoted(self) -> Word:
        """Return the whole text as one word, as if double-quoted."""
        self.text += '"'
        parts = self._read_quoted()
        if self.at < len(self.text):
            raise NotUnderstood("a quote inside of `$((…))` or `${…}`")
        return tuple(parts)

    def _between(self, begin: str, end: str) -> str:
        self.at += 1 + len(begin)
        began, open_ones, quote = self.at, 1, ""
        while self.at < len(self.text):
            letter = self.peek()
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "'\"":
                quote = letter
            elif letter == "\\":
                self.at += 1
            elif letter == begin[0]:
                open_ones += 1
            elif letter == end[0]:
                if open_ones == 1 and self.peek(len(end)) == end:
                    found = self.text[began : self.at]
                    self.at += len(end)
                    return found
                open_ones -= 1
            self.at += 1
        raise NotUnderstood(f"`${begin}` without `{end}`")
