"""Check the subject of a commit message: `area: what changes`, at most 72 characters. A commit-msg hook of git."""

import re
import sys
from pathlib import Path

MAX_SUBJECT = 72
_SUBJECT = re.compile(r"[a-z][\w./-]*(?:, [a-z][\w./-]*)*: \S.*[^.\s]")
_MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def complaint(message: str) -> str:
    """Return what is wrong with a message; empty if nothing is."""
    subject, _, body = message.partition("\n")
    if subject.startswith(_MADE_BY_GIT):
        return ""
    if not _SUBJECT.fullmatch(subject):
        return f"the subject must be `area: what changes`, without a full stop: {subject!r}"
    if len(subject) > MAX_SUBJECT:
        return f"the subject has {len(subject)} characters, and {MAX_SUBJECT} are the most: {subject!r}"
    if body and not body.startswith("\n"):
        return "an empty line must be between the subject and the body"
    return ""


if __name__ == "__main__":
    sys.exit(complaint(Path(sys.argv[1]).read_text()) or 0)
