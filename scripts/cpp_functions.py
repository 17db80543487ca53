"""Finds function definitions in C++ that clang-format laid out, and how many lines each has.

Not a parser: it follows braces through namespaces and classes and takes a brace behind a parameter
list for a function's body. Enough for the one question of tidy.py; no compiler or index is needed.
"""

import re

_ACCESS = re.compile(r"^(?:\s*(?:public|protected|private)\s*:)+")
_SCOPE = re.compile(r"\s*(?:inline\s+)?(?:(?:namespace|class|struct|union|enum)\b|extern\s*$)")
_INITIALIZERS = re.compile(r"\)[\s\w]*:(?!:)")
_NAME = re.compile(r"(operator\s*(?:\(\)|\[\]|[^\s\w(]+|[\w:* ]+)|~?[\w:~]+)\s*\(")


def functions(text):
    """(name, first line, number of lines) of every function body in `text`.

    `text` must have its comments and literals blanked (lint_common.blank).
    """
    text = without_directives(text)
    found, start, i = [], 0, 0  # `start`: where the declaration at hand begins.
    while i < len(text):
        char = text[i]
        if char == "(":
            i = _matching(text, i)
        elif char in ";}":
            start = i + 1
        elif char == "{":
            head = text[start:i]
            if _is_scope(head):
                start = i + 1
            elif _is_member_initializer(head):
                i = _matching(text, i)
            else:
                end = _matching(text, i)
                if "(" in head:
                    found.append(_describe(text, start, end))
                    start = end + 1
                i = end
        i += 1
    return found


def without_directives(text):
    """Preprocessor lines blanked, with their continuations."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.MULTILINE)


def _matching(text, i):
    """Index of the bracket that closes the one at `i`; the last character if there is none."""
    opening = text[i]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    while i < len(text):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(text) - 1


def _is_scope(head):
    """Whether a brace behind `head` opens a namespace, a class or an enumeration."""
    return bool(_SCOPE.match(_without_template(_ACCESS.sub("", head))))


def _without_template(head):
    """`head` without `template <...>` before it."""
    while match := re.match(r"\s*template\s*<", head):
        depth, i = 1, match.end()
        while i < len(head) and depth > 0:
            depth += {"<": 1, ">": -1}.get(head[i], 0)
            i += 1
        head = head[i:]
    return head


def _is_member_initializer(head):
    """Whether a brace behind `head` is that of `member_{...}` in a constructor's list."""
    return bool(_INITIALIZERS.search(head)) and bool(re.search(r"[\w>]\s*$", head))


def _describe(text, start, end):
    head = text[start:end]
    before = _ACCESS.match(head)
    start += before.end() if before else 0
    start += len(text[start:end]) - len(text[start:end].lstrip())
    name = _NAME.search(text[start:end])
    first = text.count("\n", 0, start) + 1
    return (name.group(1).strip() if name else "?", first, text.count("\n", start, end) + 1)
