#!/usr/bin/env python3
"""Goal: each field of a result or of options is wherever its struct is written out by hand: JSON of
C++ and C, C structs, Python's dicts, dataclasses and keywords, JSON of the command line.

Method: the headers are the one list. Each place is searched for a function in which a variable has
the struct's type and which uses all of its fields, under their names. What a place calls otherwise
or leaves out is listed here with the reason; an entry that nothing needs fails. Then each field is
taken out of a copy of each place, and has to be missed there.
"""

import ast
import functools
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import lint_common  # noqa: E402

STATS, FIND, TIERS, OPTIONS, C_API = (f"include/attndb/{name}.h"
                                      for name in ("stats", "find", "tiers", "options", "c_api"))
FILES = {
    "json": ("src/api/stats_json.cc", "src/api/explain.cc", "src/api/c_api_json.cc",
             "src/simulate/simulate_text.cc"),
    "dicts": ("python/src/results.cc",),
    "dataclasses": ("python/attndb/_results.py",),
    "cli": ("cli/common/context_text.cc", "cli/common/found_text.cc", "cli/commands/build.cc",
            "cli/common/upkeep_report.cc", "cli/common/dry_run.cc"),
    "c": ("src/api/c_api_convert.cc",),
    "binding": ("python/src/db_binding.cc", "python/src/session_binding.cc",
                "python/src/simulate_binding.cc"),
    "keywords": ("python/attndb/_db.py", "python/attndb/_session.py",
                 "python/attndb/_simulate.py"),
}
RESULTS = ("json", "dicts", "dataclasses", "cli")  # The other places have options.

# find.h has these, too: what is asked, which is neither a result nor options.
QUESTION = ("FindHead", "FindQuery")
C_STRUCTS = {"DBOptions": "attndb_db_options", "SessionOptions": "attndb_session_options",
             "StoreOptions": "attndb_store_options", "FindOptions": "attndb_find_options",
             "RoomOptions": "attndb_room_options",
             "CompactOptions": "attndb_compact_options", "DropOptions": "attndb_drop_options"}
PYTHON_CALLS = {"DBOptions": ("open",), "SessionOptions": ("create_session",),
                "StoreOptions": ("store", "store_async"), "FindOptions": ("find",),
                "RoomOptions": ("check_room",),
                "VerifyOptions": ("verify",), "CompactOptions": ("compact",),
                "BuildOptions": ("build",), "DropOptions": ("drop_oldest",),
                "WaitOptions": ("wait_for_background",),
                "SimulateOptions": ("simulate",)}
PYTHON_CLASSES = {"DBStats": "Stats"}

# What a place calls otherwise.
RANGES = {"SessionContext.tokens": ("begin", "end"), "Passage.tokens": ("begin", "end")}
OTHER_NAMES = {
    "json": RANGES,
    "dicts": RANGES,
    "dataclasses": RANGES | {  # Python has types for times.
        "ContextInfo.created_us": ("created",),
        "ContextInfo.last_access_us": ("last_access",),
        "ContextInfo.ttl_seconds": ("ttl",),
    },
    "cli": {
        "Passage.tokens": ("first_token", "num_tokens"),  # It gives a range by its length.
        "RoomReport.num_reused": ("reused_tokens",),  # As `import` calls it when it is done.
    },
    "c": {  # Zero is each default in C, so that what C++ has on by default is named by its off.
        "DBOptions.create_if_missing": ("must_exist",),
        "DBOptions.background_builds": ("no_background_builds",),
        "DBOptions.measure_machine": ("fixed_prices",),
        "SessionOptions.reuse": ("no_reuse",),
        "SessionOptions.truncated": ("not_truncated",),
        "StoreOptions.ttl": ("has_ttl", "ttl_seconds"),
        "StoreOptions.note": ("note", "note_bytes"),
        "DropOptions.keep": ("keep", "num_keep"),
        "DropOptions.sink": ("no_sink",),
        "FindOptions.contexts": ("contexts", "num_contexts"),
    },
    "binding": {},
    "keywords": {},
}

# What a place leaves out, a struct or one field of it, and why.
OWN_JSON = "printed by its own ToJson, or by that of what holds it"
LEFT_OUT = {
    "json": {"CriticalTokens": "attndb_session_search gives arrays"},
    "dicts": {"CriticalTokens": "the binding's search gives arrays"},
    "dataclasses": {},
    "cli": {
        "CompanionInfo": OWN_JSON, "ContextInfo": OWN_JSON, "DBStats": OWN_JSON,
        "Explain": OWN_JSON, "HeadExplain": OWN_JSON, "LayerExplain": OWN_JSON,
        "MachineProfile": OWN_JSON, "PrefixExplain": OWN_JSON, "SegmentInfo": OWN_JSON,
        "SessionContext": OWN_JSON, "SimulateReport": OWN_JSON, "SimulatedModel": OWN_JSON,
        "Substitute": OWN_JSON,
        "SimulatedRun": OWN_JSON,
        "CriticalTokens": "no command searches without attending",
        "Passage.context_id": "`context` is its name, or #id",
        "Passage.head_scores": "`attndb find` asks for none",
    },
    "c": {
        "DBOptions.custom_indexes": "types are functions of C++ or Python",
        "DBOptions.clock": "for tests",
        "SimulateOptions": "for C there is `attndb simulate --json`",
        "VerifyOptions": "arguments of attndb_db_verify",
        "BuildOptions": "an argument of attndb_db_build",
        "WaitOptions": "an argument of attndb_db_wait_for_background",
        "CompactOptions.progress": "an argument of attndb_db_compact_with",
        "RoomOptions.wait": "for servers, which have few threads",
    },
    "binding": {"RoomOptions.wait": "for servers, which have few threads"},
    "keywords": {"DBOptions.clock": "for tests",
                 "RoomOptions.wait": "for servers, which have few threads"},
}


@functools.cache
def structs(text):
    """The fields of each struct of a header."""
    found = {}
    for match in re.finditer(r"^(?:typedef )?struct (?:ATTNDB_EXPORT )?(\w+) \{\n(.*?)^\}",
                             lint_common.blank(text), re.MULTILINE | re.DOTALL):
        statements = re.sub(r"(\)(?: const)?) \{[^{}]*\}", r"\1;", match[2]).split(";")
        found[match[1]] = [name for name in map(field_of, statements) if name]
    return found


def field_of(statement):
    """The name of the field that a struct's statement declares; None if it declares none."""
    words = " ".join(statement.split())
    if re.match(r"(static|friend|using)\b", words) or re.search(r"\)( const)?$", words):
        return None
    match = re.search(r"(\w+)(?:\[\w+\])?$", words.split(" = ")[0])
    return match and match[1]


def scopes(source, struct):
    """(variable, text) wherever a variable gets the type, up to the end of its function. A member
    function has no variable."""
    for match in re.finditer(rf"\b{struct}>?&? (\w+)\b|\b{struct}::ToJson\(\) const \{{", source):
        end = re.compile(r"^\}", re.MULTILINE).search(source, match.end())
        yield match[1], source[match.end():end.start() if end else len(source)]


def writes_json(scope, variable, field, names):
    """Whether the field is read, and is written under all of `names`."""
    # Fields of a member function's own struct: what is in quotes is not the field but its name.
    read = rf"\b{variable}(?:\.|->){field}\b" if variable else rf"(?<![\"\w.]){field}\b(?!\")"
    return re.search(read, scope) and all(f'"{name}"' in scope for name in names)


def converts(scope, variable, field, names):
    """Whether the field is set from all of `names`; that the C struct has these, compilers see."""
    return (re.search(rf"\b{variable}\.{field}\b", scope)
            and all(re.search(rf"\bfrom\.{name}\b", scope) for name in names))


def initialises(scope, _variable, field, _names):
    return f".{field} = " in scope


def names_of(place, struct, field):
    return OTHER_NAMES[place].get(f"{struct}.{field}", (field,))


class Tree:
    """What is compared: `texts` has each file's, by its path."""

    def __init__(self, texts):
        self.texts = texts
        found = structs(texts[FIND])
        tiers = structs(texts[TIERS])
        self.options = structs(texts[OPTIONS]) | {
            "FindOptions": found["FindOptions"], "SimulateOptions": tiers["SimulateOptions"]}
        self.results = structs(texts[STATS]) | {
            name: fields for name, fields in (found | tiers).items()
            if name not in QUESTION and name not in self.options}

    def listed(self, place):
        return self.results if place in RESULTS else self.options

    def code(self, place):
        return re.sub(r"//[^\n]*", "", "\n".join(self.texts[path] for path in FILES[place]))

    def missing(self, place, struct):
        """The fields of a struct that a place lacks."""
        if place == "dataclasses":
            return self.missing_in_class(struct)
        if place == "keywords":
            return self.missing_in_calls(struct)
        return self.missing_in_code(place, struct)

    def missing_in_code(self, place, struct):
        """What the function lacks that has most of the fields."""
        has = {"c": converts, "binding": initialises}.get(place, writes_json)
        fields = self.listed(place)[struct]
        lacks = [[field for field in fields
                  if not has(scope, variable, field, names_of(place, struct, field))]
                 for variable, scope in scopes(self.code(place), struct)]
        return min(lacks, key=len, default=fields)

    def missing_in_class(self, struct):
        name = PYTHON_CLASSES.get(struct, struct)
        has = {line.target.id for node in self.python("dataclasses", ast.ClassDef)
               for line in node.body if node.name == name and isinstance(line, ast.AnnAssign)}
        return [field for field in self.results[struct]
                if not has.issuperset(names_of("dataclasses", struct, field))]

    def missing_in_calls(self, struct):
        arguments = {}  # The last function of a name: those before it are overloads.
        for node in self.python("keywords", ast.FunctionDef):
            arguments[node.name] = {each.arg for each in node.args.args + node.args.kwonlyargs}
        return [field for field in self.options[struct]
                if not all(field in arguments[call] for call in PYTHON_CALLS[struct])]

    def python(self, place, kind):
        return [node for path in FILES[place] for node in ast.walk(ast.parse(self.texts[path]))
                if isinstance(node, kind)]

    def unread(self):
        """Fields of the C structs that no conversion reads."""
        for struct, c_struct in C_STRUCTS.items():
            scope = dict(scopes(self.code("c"), struct)).get(f"To{struct}", "")
            for field in structs(self.texts[C_API])[c_struct]:
                if field != "struct_size" and not re.search(rf"\bfrom\.{field}\b", scope):
                    yield f"{files_of('c')}: {c_struct}.{field} is not read"

    def problems(self):
        found = list(self.unread())
        for place in FILES:
            known = {f"{struct}.{field}" for struct, fields in self.listed(place).items()
                     for field in fields}
            needed = set()
            for struct, fields in self.listed(place).items():
                lacks = self.missing(place, struct)
                names = [struct] if lacks else []
                names += [f"{struct}.{field}" for field in lacks]
                needed.update(names)
                if struct not in LEFT_OUT[place]:
                    found += [missed(place, name) for name in names
                              if "." in name and name not in LEFT_OUT[place]]
            unneeded = {name for name in LEFT_OUT[place] if name not in needed}
            unneeded |= {name for name in OTHER_NAMES[place] if name not in known}
            found += [f"tests/lint/fields_test.py: {place} needs no entry {name}"
                      for name in unneeded]
        return sorted(found)


def files_of(place):
    return " or ".join(FILES[place])


def missed(place, name):
    return f"{files_of(place)}: {name} is missing"


def read_tree():
    paths = [STATS, FIND, TIERS, OPTIONS, C_API,
             *(path for paths in FILES.values() for path in paths)]
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}


def without(text, field, names):
    """`text` without any use of a field: each has another name."""
    text = re.sub(rf"(\.|->){field}\b", r"\1gone", text)
    for name in {field, *names}:  # In member functions, dataclasses and keywords.
        text = re.sub(rf"(?<![\"\w.]){name}\b(?!\")", "gone", text)
    return text


class FieldsTest(unittest.TestCase):
    def setUp(self):
        self.texts = read_tree()

    def test_each_field_is_in_each_place(self):
        self.assertEqual(Tree(self.texts).problems(), [])

    def test_each_field_that_is_taken_out_is_missed(self):
        num_tried = 0
        for place in FILES:
            for struct, fields in Tree(self.texts).listed(place).items():
                for field in fields:
                    if {struct, f"{struct}.{field}"} & LEFT_OUT[place].keys():
                        continue
                    names = names_of(place, struct, field)
                    tree = Tree(self.texts | {path: without(self.texts[path], field, names)
                                              for path in FILES[place]})
                    self.assertIn(field, tree.missing(place, struct), f"{struct} in {place}")
                    num_tried += 1
        self.assertGreater(num_tried, 400)

    def test_a_new_field_is_missed_in_each_place(self):
        for header, struct in ((STATS, "BuildReport"), (FIND, "Passage"),
                               (OPTIONS, "StoreOptions")):
            grown = self.texts[header].replace(f"struct {struct} {{\n",
                                               f"struct {struct} {{\n  int fresh = 0;\n")
            places = FILES.keys() - RESULTS if header == OPTIONS else RESULTS
            self.assertEqual(Tree(self.texts | {header: grown}).problems(),
                             sorted(missed(place, f"{struct}.fresh") for place in places))

    def test_a_new_struct_is_missed_in_each_place(self):
        grown = self.texts[STATS] + "struct Brand {\n  int fresh = 0;\n};\n"
        self.assertEqual(Tree(self.texts | {STATS: grown}).problems(),
                         sorted(missed(place, "Brand.fresh") for place in RESULTS))

    def test_a_field_of_c_that_nothing_reads(self):
        grown = self.texts[C_API].replace("  int32_t pin;\n", "  int32_t pin;\n  int32_t moot;\n")
        self.assertEqual(Tree(self.texts | {C_API: grown}).problems(),
                         [f"{files_of('c')}: attndb_store_options.moot is not read"])

    def test_an_entry_that_nothing_needs(self):
        gone = self.texts[OPTIONS].replace("  std::function<int64_t()> clock;\n", "")
        gone = gone.replace("  bool create_if_missing = true;", "")
        self.assertEqual(Tree(self.texts | {OPTIONS: gone}).problems(), [
            f"tests/lint/fields_test.py: {place} needs no entry DBOptions.{field}"
            for place, field in (("c", "clock"), ("c", "create_if_missing"),
                                 ("keywords", "clock"))])


class StructsTest(unittest.TestCase):
    def test_fields_are_told_from_what_else_a_struct_has(self):
        self.assertEqual(structs("""\
struct ATTNDB_EXPORT A {
  int a = 0;  // int b;
  static constexpr uint64_t kC = uint64_t{1} << 31;
  bool ok() const { return a == 0; }
  std::function<bool(int d, int e)> f;
  std::string ToText() const;
  std::vector<std::pair<int, int>> g;
  friend bool operator==(const A&, const A&) = default;
};
typedef struct b_t {
  int64_t h[3];
  const char* i; /* j; */
} b_t;
"""), {"A": ["a", "f", "g"], "b_t": ["h", "i"]})


if __name__ == "__main__":
    unittest.main()
