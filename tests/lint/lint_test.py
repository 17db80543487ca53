#!/usr/bin/env python3
"""Goal: each lint script finds each violation that it is there for, at its line, and nothing else.

Method: a small clean tree in a temporary folder, on which every script is silent; each test breaks
one rule in it and expects exactly the findings named.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import check_alone  # noqa: E402
import check_clang  # noqa: E402
import cpp_functions  # noqa: E402
import format as formatter  # noqa: E402
import lint_common  # noqa: E402

CHECK_H = """\
// Checks.
#ifndef ATTNDB_COMMON_CHECK_H_
#define ATTNDB_COMMON_CHECK_H_

void Check(bool ok);

#endif  // ATTNDB_COMMON_CHECK_H_
"""

CLEAN = {
    "include/attndb/status.h": CHECK_H.replace("COMMON_CHECK", "STATUS"),
    "include/attndb/db.h": CHECK_H.replace("COMMON_CHECK", "DB"),
    "src/common/check.h": CHECK_H,
    "src/common/check.cc": '#include "common/check.h"\n\n'
                           "void Check(bool ok) {\n  if (ok) return;\n}\n",
    "src/common/check_test.cc": '#include "common/check.h"\n\n#include "testing/random.h"\n',
    "testing/random.h": CHECK_H.replace("COMMON_CHECK", "TESTING_RANDOM"),
    "scripts/layers.toml": (SCRIPTS / "layers.toml").read_text(),
    "scripts/tidy.toml": "[limits]\nline_columns = 100\nfunction_lines = 70\nfile_lines = 700\n"
                         "public_methods = 25\n[many_methods]\n[long_functions]\n"
                         "[allowed_words]\n[compiled_elsewhere]\n[tested_by]\n",
    ".clang-format": (ROOT / ".clang-format").read_text(),
    ".clang-tidy": (ROOT / ".clang-tidy").read_text(),
}


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for path, text in CLEAN.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def run_script(self, script, *arguments):
        """The lines that the script prints; checks that its exit status agrees."""
        command = [sys.executable, "-B", SCRIPTS / script, "--root", self.root, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        problems = [line for line in lines if not line.startswith("note: ")]
        self.assertEqual(done.returncode, 1 if problems else 0)
        return lines

    def expect(self, script, *findings, arguments=()):
        """Exactly these findings, each named by how its line begins."""
        lines = self.run_script(script, *arguments)
        self.assertEqual(len(lines), len(findings), lines)
        for line, finding in zip(lines, sorted(findings)):
            self.assertTrue(line.startswith(finding), f"{line!r} is not {finding!r}")


class LayersTest(LintTest):
    def test_silent_on_a_clean_tree(self):
        self.expect("check_layers.py")

    def test_finds_a_back_edge(self):
        self.write("src/storage/io/file.h", '#include "common/check.h"\n#include "api/store.h"\n')
        self.write("src/api/store.h", '#include "storage/io/file.h"\n')
        self.expect("check_layers.py",
                    "src/storage/io/file.h:2: src/storage/io may not include src/api/store.h")

    def test_finds_a_sibling_index(self):
        self.write("src/index/flat/flat.h", '#include "index/graph/graph.h"\n')
        self.write("src/index/graph/graph.h",
                   '#include "index/pq/pq.h"\n#include "index/index.h"\n')
        self.write("src/index/pq/pq.h", "")
        self.write("src/index/index.h", "")
        self.expect("check_layers.py", "src/index/flat/flat.h:1: src/index/flat may not include")

    def test_finds_a_kernel_that_knows_status(self):
        self.write("src/kernels/dot.h", '#include "attndb/status.h"\n#include "common/check.h"\n')
        self.expect("check_layers.py", "src/kernels/dot.h:1: src/kernels may not include include/")

    def test_finds_a_client_that_looks_inside_also_in_angle_brackets(self):
        self.write("cli/main.cc", "#include <attndb/db.h>\n#include <common/check.h>\n")
        self.expect("check_layers.py", "cli/main.cc:2: cli may not include src/common/check.h")

    def test_finds_an_unknown_folder(self):
        self.write("src/network/socket.h", "")
        self.expect("check_layers.py", "src/network/socket.h:1: folder is not in scripts/layers")

    def test_finds_an_include_relative_to_its_own_folder(self):
        self.write("src/common/clock.h", '#include "check.h"\n')
        self.expect("check_layers.py", 'src/common/clock.h:1: include "check.h" by its path')

    def test_lets_unit_tests_and_no_other_code_use_testing(self):
        self.write("src/common/clock.cc", '#include "testing/random.h"\n')
        self.expect("check_layers.py", "src/common/clock.cc:1: src/common may not include testing/")

    def test_finds_a_circle_in_the_table(self):
        table = CLEAN["scripts/layers.toml"].replace(
            '"src/storage/io" = { may = ["@values", "src/common"] }',
            '"src/storage/io" = { may = ["@values", "src/common", "src/planner"] }').replace(
            '"src/planner" = { may = ["@values", "src/common"] }',
            '"src/planner" = { may = ["@values", "src/storage/io"] }')
        self.write("scripts/layers.toml", table)
        self.expect("check_layers.py", "scripts/layers.toml:1: circle: ")


class ClassesTest(LintTest):
    METHODS = "".join(f"  Status Method{i}(int a = f(2)) const;\n" for i in range(25))

    def test_silent_on_a_clean_tree(self):
        self.expect("check_classes.py")

    def test_finds_the_method_that_is_too_many(self):
        class_of_25 = f"class A final : public B {{\n public:\n{self.METHODS}"
        self.write("src/common/a.h", class_of_25 + "};\n")
        self.expect("check_classes.py")
        for declaration in ("static Result<std::map<int, int>> Open(int path);",
                            "void Close() REQUIRES(mutex_) override { if (x) { y(); } }",
                            "template <typename T> T Get(const T& value) { return value; }",
                            "void Method0(std::function<void(int)> other);"):
            self.write("src/common/a.h", f"{class_of_25}  {declaration}\n}};\n")
            self.expect("check_classes.py", "src/common/a.h:1: A has 26 public methods; at most 25")

    def test_counts_what_is_public_and_a_method(self):
        self.write("src/common/a.h", f"""\
            class ATTNDB_CAPABILITY("a") A : public B {{
             public:
              using Progress = std::function<bool(int)>;
              enum class Kind {{ kOne }};
              struct Inner {{ void Call(); int x = F(1); }};
              explicit A(int size);
              A(const A&) = delete;
              A& operator=(const A&) = delete;
              ~A() override {{ Close(); }}
              int size() const {{ return size_; }}
              std::function<bool(LayerId)> test;
              int guarded ATTNDB_GUARDED_BY(Mutex()) = 0;
              static constexpr int kSize = Round(7);
              friend bool operator==(const A&, const A&) = default;
            {self.METHODS}
             private:
              void Close();
            }};
            """)
        self.expect("check_classes.py")

    def test_counts_a_struct_in_a_class_by_itself(self):
        self.write("src/common/a.h", f"""\
            class A {{
              struct Inner {{
            {self.METHODS}    void Call();
              }};
            }};
            """)
        self.expect("check_classes.py",
                    "src/common/a.h:2: Inner has 26 public methods; at most 25")

    def test_an_exception_is_taken_back_when_it_is_not_needed(self):
        rules = CLEAN["scripts/tidy.toml"]
        self.write("scripts/tidy.toml",
                   rules.replace("[many_methods]\n", '[many_methods]\nA = "why"\n'))
        self.write("src/common/a.h", f"struct A {{\n{self.METHODS}  void Call();\n}};\n")
        self.expect("check_classes.py")
        self.write("src/common/a.h", "struct A {\n};\n")
        self.expect("check_classes.py",
                    "scripts/tidy.toml:1: no longer needed in many_methods: A")


class HeadersTest(LintTest):
    def headers(self, *findings):
        lines = self.run_script("check_headers.py", "--cache", str(self.root / "build"))
        heads = [line for line in lines if line.startswith(("src/", "include/", "testing/"))]
        self.assertEqual([h for h in heads if any(h.startswith(f) for f in findings)], heads)
        self.assertEqual(len([h for h in heads if ": does not" in h or "must include" in h]),
                         len(findings), lines)

    def test_silent_on_a_clean_tree_twice(self):
        self.headers()
        self.headers()

    def test_finds_a_header_that_needs_another(self):
        self.write("src/common/clock.h", "// Clock.\nstd::string Now();\n")
        self.headers("src/common/clock.h:1: does not compile alone (c++)")
        self.headers("src/common/clock.h:1: does not compile alone (c++)")  # Not taken for proven.

    def test_looks_again_when_an_included_header_changed(self):
        self.write("src/common/clock.h", '// Clock.\n#include "common/time.h"\nTime Now();\n')
        self.write("src/common/time.h", "// Time.\nusing Time = int;\n")
        self.headers()
        self.write("src/common/time.h", "// Time.\n")
        self.headers("src/common/clock.h:1: does not compile alone (c++)")

    def test_finds_a_source_that_includes_its_header_late(self):
        self.write("src/common/check.cc", '#include <vector>\n\n#include "common/check.h"\n')
        self.headers("src/common/check.cc:1: must include its own header first")

    def test_finds_a_c_interface_that_is_only_cpp(self):
        self.write("include/attndb/c_api.h", "/* C. */\nint Size(const int& x);\n")
        self.headers("include/attndb/c_api.h:1: does not compile alone (c)")


class TidyTest(LintTest):
    def test_silent_on_a_clean_tree(self):
        self.expect("tidy.py")

    def add(self, text, path="src/common/check.cc"):
        self.write(path, CLEAN[path] + text)

    def test_finds_a_long_line_and_a_space_at_the_end(self):
        self.add(f"// {'x' * 98}\n// y \n")
        self.expect("tidy.py", "src/common/check.cc:6: 101 columns", "src/common/check.cc:7: space")

    def test_finds_a_comment_that_begins_as_a_fragment(self):
        of, dots = "// " + "Of", "// " + "..."
        self.add(f"{of} the row.\nint x;  {dots} and of the key\n// It is known.\n{of} both.\n"
                 f"// Offers it.\n//   ... indented code ...\nint y;  {of} it.\n")
        self.write("scripts/x.py", f"x = 1  {of.replace('//', '#')} it.\n")
        self.expect("tidy.py", "scripts/x.py:1: a comment begins with Of",
                    "src/common/check.cc:6: a comment begins with Of",
                    "src/common/check.cc:7: a comment begins with ...",
                    "src/common/check.cc:12: a comment begins with Of")

    def test_finds_a_long_function_and_not_one_of_70_lines(self):
        self.add("void Long() {\n" + "  Check(true);\n" * 69 + "}\n"
                 "void Fits() {\n" + "  Check(true);\n" * 68 + "}\n")
        self.expect("tidy.py", "src/common/check.cc:6: Long() has 71 lines; at most 70")

    def test_a_long_function_that_was_let_in_may_only_shrink(self):
        self.add("void Long() {\n" + "  Check(true);\n" * 72 + "}\n")
        rules = CLEAN["scripts/tidy.toml"]
        entry = '[long_functions]\n"src/common/check.cc:Long" = '
        self.write("scripts/tidy.toml", rules.replace("[long_functions]\n", entry + "74\n"))
        self.expect("tidy.py")
        self.write("scripts/tidy.toml", rules.replace("[long_functions]\n", entry + "73\n"))
        self.expect("tidy.py", "src/common/check.cc:6: Long() has 74 lines")
        self.add("")
        self.expect("tidy.py", "scripts/tidy.toml:1: no longer needed in long_functions")

    def test_finds_a_long_file(self):
        self.add("int x;\n" * 696)
        self.expect("tidy.py", "src/common/check.cc:1: 701 lines; at most 700")

    def test_finds_words_and_not_their_innocent_forms(self):
        self.add(textwrap.dedent("""\
            // A new file: delete it, abort() and std::cout.
            #include <new>
            const char* text = "new delete std::cout abort()";
            struct S { S(const S&) = delete; };
            int* a = new int;
            void f() { delete a; }
            void g() { std::cout << 1; }
            void h() { std::abort(); }
            """))
        self.expect("tidy.py", *(f"src/common/check.cc:{line}: {word} in src/" for line, word in
                                 ((10, "new"), (11, "delete"), (12, "std::cout"), (13, "abort"))))

    def test_lets_the_listed_file_use_a_listed_word(self):
        self.add("void h() { std::abort(); }\n")
        self.write("scripts/tidy.toml", CLEAN["scripts/tidy.toml"].replace(
            "[allowed_words]\n", '[allowed_words]\n"src/common/check.cc" = ["abort"]\n'))
        self.expect("tidy.py")

    def test_finds_a_todo_without_an_issue(self):
        self.add("// TODO(#12): later.\n// TODO: some day.\n")
        self.expect("tidy.py", "src/common/check.cc:7: TODO without an issue")

    def test_finds_a_header_without_comment_and_one_with_a_wrong_guard(self):
        self.write("src/common/check.h", CHECK_H.replace("// Checks.\n", ""))
        self.write("testing/random.h", CHECK_H)
        self.expect("tidy.py", "src/common/check.h:1: no comment at the top",
                    "testing/random.h:1: include guard must be ATTNDB_TESTING_RANDOM_H_")

    def test_finds_paths_of_a_machine_and_registries(self):
        work, home = "/wo" + "rk/x", "/ho" + "me/me"
        host = "https://" + "py" + "pi.org/simple"
        self.write("docs/a.md", f"see {work}/y\nand {home}\nand $B{work} src{work} {host}\n")
        self.expect("tidy.py", *(f"docs/a.md:{line}: names a machine: {what}" for line, what in
                                 ((1, "/w"), (2, "/h"), (3, "https://"))))

    def test_finds_a_unit_without_test(self):
        (self.root / "src/common/check_test.cc").unlink()
        self.expect("tidy.py", "src/common/check.cc:1: no src/common/check_test.cc")

    def test_takes_the_listed_test_if_it_exists(self):
        (self.root / "src/common/check_test.cc").unlink()
        entry = '[tested_by]\n"src/common/*" = { test = "tests/all_test.cc", why = "why" }\n'
        self.write("scripts/tidy.toml", CLEAN["scripts/tidy.toml"].replace("[tested_by]\n", entry))
        self.expect("tidy.py", "scripts/tidy.toml:1: src/common/*: no such test: tests/all_test.cc")
        self.write("tests/all_test.cc", "")
        self.expect("tidy.py")

    def test_finds_an_entry_of_a_unit_that_has_its_test(self):
        entry = '[tested_by]\n"src/common/check" = { test = "x", why = "why" }\n'
        self.write("scripts/tidy.toml", CLEAN["scripts/tidy.toml"].replace("[tested_by]\n", entry))
        self.expect("tidy.py", "scripts/tidy.toml:1: no longer needed in tested_by")

    def test_finds_a_source_that_is_never_compiled(self):
        commands = self.root / "build/compile_commands.json"
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": "src/common/check.cc", "command": "c++"}]))
        self.expect("tidy.py", "src/common/check_test.cc:1: in no CMakeLists.txt",
                    arguments=("--compile-commands", str(commands)))
        self.write("scripts/tidy.toml", CLEAN["scripts/tidy.toml"].replace(
            "elsewhere]\n", 'elsewhere]\n"src/common/check_test.cc" = "asan"\n"x.cc" = "asan"\n'))
        self.expect("tidy.py", "scripts/tidy.toml:1: no longer needed in compiled_elsewhere: x.cc",
                    arguments=("--compile-commands", str(commands)))


class FormatTest(LintTest):
    def expect_format(self, *findings, check=True):
        self.expect("format.py", *findings, arguments=(
            "--cache", str(self.root / "build"), *(["--check"] if check else [])))

    def test_finds_and_mends_a_file_that_is_not_formatted(self):
        files = {"src/common/check.cc": '#include "common/check.h"\n\nvoid F( bool ok ) { }\n',
                 "testing/random.h": "// " + "word " * 19 + "then\n//      more.\n"}
        findings = [f"{path}:1: not formatted" for path in files]
        self.expect_format()
        for _ in range(2):  # The second time, both contents were seen before.
            for path, text in files.items():
                self.write(path, text)
            self.expect_format(*findings)
            self.expect_format(*findings)
            self.expect_format(check=False)
            self.expect_format()

    def test_a_change_of_the_settings_reaches_files_that_were_seen(self):
        self.expect_format()
        self.write(".clang-format", CLEAN[".clang-format"] + "IndentWidth: 7\n")
        self.expect_format("src/common/check.cc:1: not formatted")

    def test_settings_that_clang_format_refuses_are_an_error(self):
        self.write(".clang-format", "Nothing: 1\n")
        done = subprocess.run([sys.executable, "-B", SCRIPTS / "format.py", "--root", self.root,
                               "--cache", self.root / "build", "--check"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Nothing", done.stderr)

    def test_wraps_a_long_comment_into_the_rest_of_its_paragraph(self):
        words = " ".join(["word"] * 19)
        self.assertEqual(
            formatter.wrap_comments(f"  // Note: {words}\n  //       more.\n  // Next: x\nint x;"),
            "  // Note: " + " ".join(["word"] * 18) + "\n  //       word more.\n"
            "  // Next: x\nint x;")
        self.assertEqual(formatter.wrap_comments(f"// {words} abcd\n// Next: x"),
                         f"// {words}\n// abcd\n// Next: x")

    def test_wraps_c_comments(self):
        words = " ".join(["word"] * 19)
        self.assertEqual(formatter.wrap_comments(f"/* {words} abcd\n * more. */\n * {words} */"),
                         f"/* {words}\n * abcd more. */\n * {words} */")


class CompiledTest(LintTest):
    """Of scripts that look at what a build compiles."""

    def found(self, script, sources, *arguments):
        """What the script prints of `sources`, {path: text}."""
        for name, text in sources.items():
            self.write(name, text)
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": name,
              "command": "c++ -Isrc -std=c++20 -O2 -Wall -Wextra"} for name in sources]))
        return "\n".join(self.run_script(
            script, "--cache", str(self.root / "build"),
            "--compile-commands", str(self.root / "build/compile_commands.json"), *arguments))


class ClangTest(CompiledTest):
    def clang(self, text, path="src/common/check.cc", others=()):
        return self.found("check_clang.py", {path: text, **dict(others)})

    def test_silent_on_good_names(self):
        self.assertEqual(self.clang("namespace attndb {\nconstexpr int kSize = 1;\n"
                                    "int Twice(int size) { return size * 2 * kSize; }\n}\n"), "")

    def test_finds_bad_names(self):
        self.assertIn("invalid case style for function 'Twice_It'", self.clang(
            "int Twice_It(int size) { return size * 2; }\n"))
        self.assertIn("invalid case style for class 'my_class'", self.clang("class my_class {};\n"))

    def test_finds_a_bad_name_in_a_header(self):
        self.write("src/common/a.h", "struct my_struct {};\n")
        self.assertIn("invalid case style for struct 'my_struct'",
                      self.clang('#include "common/a.h"\n',
                                 others=[("src/common/b.cc", '#include <string>\n')]))

    def test_says_which_of_several_sources_it_was(self):
        others = [(f"src/common/good{i}.cc", f"int Good{i}() {{ return {i}; }}\n")
                  for i in range(4)]
        found = self.clang("int Twice_It(int size) { return size * 2; }\n", others=others)
        self.assertIn("src/common/check.cc:1: clang-tidy-14 found", found)
        self.assertIn("invalid case style for function 'Twice_It'", found)
        self.assertNotIn("good", found)

    def test_lets_two_sources_use_one_name(self):
        source = "namespace {\nint Size() { return 1; }\n}\nint %s() { return Size(); }\n"
        others = [("src/common/b.cc", source % "Second")]
        self.assertEqual(self.clang(source % "First", others=others), "")

    def test_looks_at_sources_that_define_one_name_in_two_passes(self):
        sources = {"a.cc": "enum Part { kA };\n", "b.cc": "struct Part {\n  int Size();\n};\n",
                   "c.cc": "int Part::Size() { return 1; }\n", "d.cc": "int Size() { return 2; }\n"}
        for name, text in sources.items():
            self.write(name, text)
        found = check_clang.batches(self.root, [(pathlib.Path(name), []) for name in sources])
        self.assertEqual([[str(path) for path, _ in batch] for batch in found],
                         [["a.cc", "c.cc", "d.cc"], ["b.cc"]])

    def test_looks_at_the_sources_of_a_batch(self):
        self.write("src/common/check.cc", "int Twice_It(int size) { return size * 2; }\n")
        batch = "build/common_batch_0.cc"
        text = f'#include "../src/common/check.cc"\n'
        self.assertIn("Twice_It", self.found("check_clang.py", {batch: text}))


class AloneTest(CompiledTest):
    def alone(self, *arguments, **sources):
        return self.found("check_alone.py", {f"src/common/{name}.cc": text
                                             for name, text in sources.items()}, *arguments)

    LOCKS = textwrap.dedent("""\
        class __attribute__((capability("mutex"))) Mutex {
         public:
          void Lock() __attribute__((acquire_capability()));
        };
        class Counter {
         public:
          int Get() { return count_; }
         private:
          Mutex mutex_;
          int count_ __attribute__((guarded_by(mutex_))) = 0;
        };
        """)
    LACKS = "std::string text;\n"

    def test_finds_a_source_that_lives_on_its_neighbours_includes(self):
        self.write("src/common/a.cc", "#include <string>\n")
        self.write("src/common/b.cc", self.LACKS)
        batch = "".join(f'#include "../src/common/{name}.cc"\n' for name in "ab")
        found = self.found("check_alone.py", {"build/common_batch_0.cc": batch})
        self.assertIn("src/common/b.cc:1: does not compile alone", found)
        self.assertNotIn("src/common/a.cc", found)

    def test_finds_a_constant_that_nothing_uses(self):
        self.assertIn("unused variable 'kSize'", self.alone(
            a="namespace {\nconstexpr int kSize = 1;\n}\n"))

    def test_finds_what_is_read_without_its_lock(self):
        self.assertIn("requires holding mutex 'mutex_'", self.alone(a=self.LOCKS))
        self.assertIn("requires holding mutex 'mutex_'", self.alone(a_test=self.LOCKS))

    def test_precompiles_nothing_that_a_source_lacks(self):
        includes = "".join(f"#include <{name}>\n" for name in check_alone.PRECOMPILED[-1])
        found = self.alone(lacks=self.LACKS, a=includes, b=includes, c=includes,
                           d=includes + "std::vector<std::string> texts;\n")
        self.assertEqual([line for line in found.splitlines() if line.endswith(" alone:")],
                         ["src/common/lacks.cc:1: does not compile alone:"])

    def test_finds_a_header_that_lives_on_what_its_source_includes_next(self):
        includes = "".join(f"#include <{name}>\n" for name in check_alone.PRECOMPILED[-1])
        self.write("src/common/a.h", "inline std::string Text() { return {}; }\n")
        found = self.alone(a='#include "common/a.h"\n\n' + includes, b=includes, c=includes,
                           d=includes, e=includes)
        self.assertIn("src/common/a.cc:1: does not compile alone", found)

    def test_looks_at_new_text_first_if_a_run_is_limited(self):
        self.write("src/common/a.h", "#pragma once\n")
        include = '#include "common/a.h"\n'
        old = {f"old{i}": f"{include}int Old{i}();\n" for i in range(3)}
        self.assertEqual(self.alone(**old), "")
        self.write("src/common/a.h", "#pragma once\n" + self.LACKS)
        found = self.alone("--at-most", "1", new=include, **old)
        self.assertIn("note: looks at 1 of 4 changed sources", found)
        self.assertEqual(found.count("does not compile alone"), 1)
        self.assertIn("src/common/new.cc:1: does not compile alone", found)

    def test_looks_again_at_what_failed_if_runs_are_limited(self):
        sources = {f"a{i}": f"int A{i}();\n" for i in range(8)}
        sources["bad"] = self.LACKS
        while "bad.cc" not in self.alone("--at-most", "1", **sources):
            pass
        changed = {name: text + f"int More{name}();\n" for name, text in sources.items()}
        self.assertIn("src/common/bad.cc:1", self.alone("--at-most", "1", **changed))
        changed["bad"] = "int Good();\n"
        self.assertEqual(self.alone("--at-most", "1", **changed).count("compile"), 0)
        self.assertEqual(list(self.root.glob("build/alone/failed-*")), [])

    def test_comes_to_each_source_if_runs_are_limited(self):
        sources = {f"a{i}": f"int A{i}();\n" for i in range(3)}
        for looked_at in (1, 2, 3, 3):
            self.assertNotIn("compile", self.alone("--at-most", "1", **sources))
            self.assertEqual(len(list(self.root.glob("build/alone/own-*"))), looked_at)

    def test_looks_at_every_source_if_told_so(self):
        lacks = {name: self.LACKS for name in "abc"}
        with unittest.mock.patch.dict("os.environ", ATTNDB_LINT="all"):
            found = self.alone("--at-most", "1", **lacks)
        self.assertEqual(found.count("does not compile alone"), 3)

    def test_looks_only_at_what_changed_if_told_so(self):
        def git(*words):
            subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words],
                           cwd=self.root, check=True, capture_output=True)
        git("init")
        self.write("src/common/old.cc", self.LACKS)
        git("add", ".")
        git("commit", "-m", "x")
        self.assertEqual(self.alone("--changed", old=self.LACKS), "")
        found = self.alone("--changed", old=self.LACKS, new=self.LACKS)
        self.assertIn("src/common/new.cc:1: does not compile alone", found)
        self.assertNotIn("old.cc", found)


class FunctionsTest(unittest.TestCase):
    def found(self, text):
        return cpp_functions.functions(lint_common.blank(textwrap.dedent(text)))

    def test_finds_each_kind_of_function_and_its_lines(self):
        self.assertEqual(self.found("""\
            namespace a::b {
            enum class E : int { kA, kB };
            struct Point { int x = 0; int y{1}; };
            const int kTable[] = {1, 2};
            template <typename T, class U = X<T>>
            class Foo : public Bar<T> {
             public:
              Foo(int a, int b)
                  : Bar(a), x_{b}, y_(a) {
                Run();
              }
              ~Foo() override = default;
              bool operator==(const Foo& o) const { return true; }
             private:
              int x_{0};
            };
            Result<std::vector<int>> Foo::Get(
                int a) const {
              if (a) {
                auto f = [&](int b) { return b; };
              }
            }
            TEST_F(FooTest, Works) {
            }
            int F() { return '{' + '\\'' + 1'000 + "}"[0]; }  // }
            }  // namespace
            """), [("Foo", 8, 4), ("operator==", 13, 1), ("Foo::Get", 17, 6), ("TEST_F", 23, 2),
                   ("F", 25, 1)])

    def test_skips_macros(self):
        self.assertEqual(self.found("""\
            #define A(x) \\
              do {       \\
              } while (false)
            void F() {
            }
            """), [("F", 4, 2)])


if __name__ == "__main__":
    unittest.main()
