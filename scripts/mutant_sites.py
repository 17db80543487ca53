"""Small faults that could be put into C++ code, each behind a switch; scripts/mutants.py draws.

A fault is one change of one line that is no comment. The code that holds it holds the unchanged
code, too: `if (attndb_fault::On(7) ? !(a) : (a))` is turned round while fault 7 is on, and no line
moves, so that the compiler's messages lead back to a fault.
"""

import dataclasses
import re

from lint_common import blank

ON = "attndb_fault::On({})"


def _comparison(match):
    return f" {match[1][0] if match[1].endswith('=') else match[1] + '='}"


# What is looked for in a line of code, and what stands there instead. A check that is left out, and
# room that is not reserved, would change nothing.
CHANGES = (
    ("condition turned round",
     re.compile(r"\bif \((?!constexpr)(.*)\) (?=\{|return|continue|break)"),
     lambda m: f"if (!({m[1]})) "),
    ("comparison moved by one", re.compile(r" (<=|>=|<|>)(?= [\w(]|$)"), _comparison),
    ("equality turned round", re.compile(r" (==|!=)(?= |$)"),
     lambda m: " !=" if m[1] == "==" else " =="),
    ("and, or exchanged", re.compile(r" (&&|\|\|)(?= |$)"),
     lambda m: " ||" if m[1] == "&&" else " &&"),
    ("error ignored", re.compile(r"\bATTNDB_RETURN_IF_ERROR\((.*)\);$"),
     lambda m: f"(void)({m[1]});"),
    ("number off by one", re.compile(r"(?<=[\w)\]]) ([+-]) 1(?=[;,) ])"),
     lambda m: " + 0" if m[1] == "+" else " - 0"),
    ("statement left out",
     re.compile(r"^(\s+)(?!return|const|auto|case|break|continue|using|static|ATTNDB_D?CHECK)"
                r"(?!.*\breserve\(|ATTNDB_ASSIGN_OR_RETURN\([^,]* )"
                r"[\w.>\-\[\]]+(?:\(.*\)| [+|&-]?= .*);$"),
     lambda m: f"{m[1]};  // {m[0].strip()}"),
    ("true and false exchanged", re.compile(r"\breturn (true|false);"),
     lambda m: f"return {'false' if m[1] == 'true' else 'true'};"),
)


_NOT_COMPILED = re.compile(r"#|\s*ATTNDB_DCHECK\(")  # By every build, at least.


@dataclasses.dataclass
class Fault:
    path: object   # Relative to the tree.
    line: int      # The first is 1.
    kind: str
    new: str       # The line as it would be with the fault in it.
    start: int     # What is replaced: text[start:end].
    end: int
    switched: str  # What stands there instead; {} is the switch.
    lines: tuple   # The first and last line of what is replaced.


def _outward(code, at, step):
    """Where the expression around code[at] ends, going left (step -1) or right (1).

    It ends at a bracket that encloses it, at a semicolon and at a comma.
    """
    opening, closing = ("([{", ")]}") if step > 0 else (")]}", "([{")
    depth = 0
    while 0 <= at < len(code):
        if code[at] in opening:
            depth += 1
        elif code[at] in closing:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and code[at] in ";,":
            break
        at += step
    return at


_BEGINS = re.compile(r"(?<![=!<>])=(?!=)|\b(?:return|throw)\b")


def _begin_of(code, start, at):
    """Where in code[start:at] the operand begins: after the last `=` or `return`."""
    begin, depth = start, 0
    for i in range(start, at):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
        elif depth == 0 and (match := _BEGINS.match(code, i)):
            begin = max(begin, match.end())
    return begin + len(code[begin:at]) - len(code[begin:at].lstrip())


def _of_expression(text, code, start, end, changed):
    """(start, end, switched) of the whole expression around an operator that is changed."""
    first = _begin_of(code, _outward(code, start - 1, -1) + 1, start)
    last = _outward(code, end, 1)
    before = text[first:last]
    if "//" in before:
        return None
    after = " ".join((text[first:start] + changed + text[end:last]).split("\n"))
    return first, last, f"{ON} ? ({escaped(after)}) : ({escaped(before)})"


def escaped(text):
    return text.replace("{", "{{").replace("}", "}}")


def _of_condition(match, at):
    """`if (a; b)`: b alone is turned round."""
    begin = match[1].rfind(";") + 1
    condition = escaped(match[1][begin:].strip())
    start = at + match.start(1) + begin
    return start, at + match.end(1), f"{' ' if begin else ''}{ON} ? !({condition}) : ({condition})"


def _switched(kind, text, code, at, match, changed):
    """(start, end, switched) of a change that `match` found in the line which begins at `at`."""
    start, end = at + match.start(), at + match.end()
    if kind == "condition turned round":
        return _of_condition(match, at)
    if kind == "error ignored":
        return start, end, (f"{{{{ if ({ON}) {{{{ {escaped(changed)} }}}} "
                            f"else {{{{ {escaped(match[0])} }}}} }}}}")
    if kind == "number off by one":
        return start, end, f" {match[1]} ({ON} ? 0 : 1)"
    if kind == "statement left out":
        statement = escaped(match[0].strip())
        return start, end, f"{match[1]}{{{{ if (!{ON}) {{{{ {statement} }}}} }}}}"
    if kind == "true and false exchanged":
        return start, end, f"return {ON} != {match[1]};"
    return _of_expression(text, code, start, end, changed)


def _is_whole(code, at, match):
    """Whether a line is a statement, not the end of one that began on a line before."""
    before, statement = code[:at].rstrip(), match[0].strip()
    begins = not before or before.endswith((";", "{", "}", ":", ")", ">", "else"))
    return begins and _outward(statement, 0, 1) == len(statement) - 1


def faults_of(path, text):
    """Each fault that could be put into a source."""
    code, at = blank(text), 0
    for number, (line, blanked) in enumerate(
            zip(text.splitlines(), code.splitlines(), strict=True), start=1):
        for kind, pattern, change in CHANGES:
            for match in pattern.finditer(blanked):
                if line[match.start():match.end()] != match[0] or _NOT_COMPILED.match(line):
                    continue
                if kind == "statement left out" and not _is_whole(code, at, match):
                    continue
                changed = change(match)
                place = _switched(kind, text, code, at, match, changed)
                if place:
                    start, end, switched = place
                    lines = (text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1)
                    new = line[:match.start()] + changed + line[match.end():]
                    yield Fault(path, number, kind, new.strip(), start, end, switched, lines)
        at += len(line) + 1


def overlap(a, b):
    return a.path == b.path and a.start < b.end and b.start < a.end


def with_faults(text, faults, header):
    """A source with faults in it: `faults` is a dict of number -> fault, none of which overlap."""
    for number, fault in sorted(faults.items(), key=lambda item: -item[1].start):
        text = text[:fault.start] + fault.switched.format(number) + text[fault.end:]
    return f'#include "{header}"\n#line 1\n{text}'
