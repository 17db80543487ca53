#!/usr/bin/env python3
"""Checks that no class in src/ has more than 25 public methods.

A method is a member function that the class itself declares and whose name begins with a capital
letter, each overload by itself. Constructors, the destructor, operators and plain accessors, which
the rule of names writes in lower case, are none. Classes of tests are not looked at. A class that
has more than that is several: what belongs together moves into a class of its own. Exceptions,
which are meant to go: tidy.toml's many_methods.
"""

import re
import tomllib

import cpp_functions
import lint_common as lint

_CLASS = re.compile(r"(?<!enum )\b(class|struct)\b([^;{}()=]*(?:\([^()]*\)[^;{}()=]*)?)\{")
_ACCESS = re.compile(r"\s*(public|protected|private)\s*:(?!:)")
_NO_METHOD = re.compile(r"\s*(?:using|typedef|friend|static_assert|enum|class|struct|union)\b")
_ANNOTATION = re.compile(r"\b(?:ATTNDB_\w+|alignas|noexcept|requires)\s*\(")
_METHOD = re.compile(r"(?<![~\w])([A-Z]\w*)\s*$")


def _end(text, i, pair):
    """Index behind the bracket that closes the one at `i`."""
    depth = 0
    for j in range(i, len(text)):
        depth += (text[j] == pair[0]) - (text[j] == pair[1])
        if depth == 0:
            return j + 1
    return len(text)


def _without(text, pattern, pair):
    """`text` without what `pattern` finds, up to the bracket that closes its last character."""
    while match := pattern.search(text):
        text = text[:match.start()] + text[_end(text, match.end() - 1, pair):]
    return text


def _name(head):
    """The class's name, from what stands between its keyword and its brace."""
    head = re.split(r"(?<!:):(?!:)", _without(head, _ANNOTATION, "()"))[0]
    words = [word for word in re.findall(r"[\w:]+", re.sub(r"<.*>", "", head)) if word != "final"]
    return words[-1] if words else ""


def _method(declaration):
    """The name of the member function that is declared; None if it is none."""
    if _NO_METHOD.match(declaration):
        return None
    text = _without(declaration, _ANNOTATION, "()")
    text = _without(text, re.compile(r"<(?=[^=])"), "<>")
    match = _METHOD.search(text.partition("(")[0]) if "(" in text else None
    before = text[:match.start()] if match else ""
    return match[1] if match and "=" not in before and "operator" not in before else None


def _public_methods(name, kind, body):
    """Names of the methods that a class's body declares public."""
    access, start, i = ("public" if kind == "struct" else "private"), 0, 0
    while i < len(body):
        if label := _ACCESS.match(body, start):
            access, start = label[1], label.end()
            i = max(i, start)
            continue
        if body[i] == "(":
            i = _end(body, i, "()")
            continue
        if body[i] in "{;":
            found = _method(body[start:i])
            if access == "public" and found not in (None, name.rpartition("::")[2]):
                yield found
            i = start = _end(body, i, "{}") if body[i] == "{" else i + 1
            continue
        i += 1


def classes(text):
    """(name, line, public methods) of every class in `text`, whose comments are blanked."""
    for match in _CLASS.finditer(text):
        name = _name(match[2])
        body = text[match.end():_end(text, match.end() - 1, "{}") - 1]
        yield name, lint.line_of(text, match.start()), list(_public_methods(name, match[1], body))


def main():
    args = lint.parser(__doc__).parse_args()
    rules = tomllib.loads(lint.read(args.root, "scripts/tidy.toml"))
    limit, allowed = rules["limits"]["public_methods"], rules["many_methods"]
    problems, used = [], set()
    for path in lint.code_files(args.root, (".h", ".cc")):
        if path.parts[0] != "src" or path.stem.endswith(("_test", "_test_util")):
            continue
        text = cpp_functions.without_directives(lint.blank(lint.read(args.root, path)))
        for name, line, methods in classes(text):
            if len(methods) > limit and name in allowed:
                used.add(name)
            elif len(methods) > limit:
                problems.append(f"{path}:{line}: {name} has {len(methods)} public methods; "
                                f"at most {limit}")
    problems += [f"scripts/tidy.toml:1: no longer needed in many_methods: {name}"
                 for name in set(allowed) - used]
    lint.finish(problems)


if __name__ == "__main__":
    main()
