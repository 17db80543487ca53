#!/usr/bin/env python3
"""Goal: docs/cli.md, the README, the help and the manual page say the same.

Method: commands and flags are read from --help, and compared with the sections and tables of the
page, both ways; so are exit codes and variables.
"""

import re

import cli_case
from cli_case import CliCase, has_engine

# Without an engine these know no flags.
OF_THE_ENGINE = {"import", "append", "ask", "cat", "chat", "explain", "find", "serve", "capture",
                 "plot"}


def page(name):
    return (cli_case.ROOT / name).read_text(encoding="utf-8")


def section_of(command):
    found = re.search(rf"^## {command}\n(.*?)(?=^## |\Z)", page("docs/cli.md"),
                      re.MULTILINE | re.DOTALL)
    return found[1] if found else None


class PagesTest(CliCase):
    def flags(self, *command):
        """{flag: what stands for its value} of a help."""
        options = self.run_ok(*command, "--help").out.split("\nExamples:")[0]
        flags = {}
        for line in options.split("\n"):
            found = re.match(r"  (-[\w,-]+)( [A-Z][\w:/|]*)?", line)
            for name in found[1].split(",") if found else ():
                flags[name] = (found[2] or "").strip()
        return flags

    def test_the_page_has_a_section_for_each_command_and_for_no_other(self):
        commands = self.commands()
        titles = re.findall(r"^## ([a-z][a-z-]*)$", page("docs/cli.md"), re.MULTILINE)
        self.assertEqual(titles, commands)

    def test_a_section_has_the_flags_that_there_are_and_no_others(self):
        common = self.flags()
        for command in self.commands():
            if command in OF_THE_ENGINE and not has_engine():
                continue
            with self.subTest(command=command):
                rows = re.findall(r"^\| (`-.*?`) \|", section_of(command), re.MULTILINE)
                documented = re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)(?: ([A-Z][\w:/|]*))?",
                                        " ".join(rows))
                own = {flag: value for flag, value in self.flags(command).items()
                       if flag not in common}
                self.assertEqual({flag for flag, _ in documented}, set(own))
                for flag, value in documented:
                    if value:
                        self.assertEqual(value, own[flag], flag)

    def test_the_flags_of_every_command_have_a_table_of_their_own(self):
        table = page("docs/cli.md").split("## Options of every command\n")[1].split("\nThey may")[0]
        named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(
            re.findall(r"^\| (`-.*?`) \|", table, re.MULTILINE))))
        self.assertEqual(named, set(self.flags()) - {"--version"})

    def test_every_flag_that_the_page_names_is_some_commands(self):
        if not has_engine():
            self.skipTest("no engine")
        known = set(self.flags())
        for command in self.commands():
            known |= set(self.flags(command))
        for section in map(section_of, self.commands()):
            for shown in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", section):
                for flag in re.findall(r"(?:^|[ (])(--[a-z][a-z-]*)", shown):
                    self.assertIn(flag, known, shown)

    def test_exit_codes_are_the_same_everywhere(self):
        def table(text):
            return {int(code): meaning.replace("`", "")
                    for code, meaning in re.findall(r"^\| (\d+) \| (.*?) \|$", text, re.MULTILINE)}

        readme = table(page("README.md").split("| exit code | meaning |")[1].split("\n\n")[0])
        cli = table(page("docs/cli.md").split("## Exit codes\n")[1].split("\n## ")[0])
        manual = self.run_ok("man").out.split(".SH EXIT STATUS\n")[1].split(".SH")[0]
        manual = {int(code): meaning.replace("\\-", "-") for code, meaning in
                  re.findall(r"\.TP\n\\fB(\d+)\\fR\n(.*)\n", manual)}
        self.assertEqual(readme, manual)
        self.assertEqual(set(cli), set(manual))
        for code, meaning in manual.items():
            self.assertTrue(cli[code].startswith(meaning), (cli[code], meaning))
        text = self.run_ok("--help").out.split("Exit codes:")[1].replace("\n", " ")
        self.assertEqual([int(code) for code in re.findall(r" (\d+) ", text)], list(manual))
        for name in ("OK", "ERROR", "USAGE", "NOT_FOUND", "DAMAGE", "BUSY", "NO_ROOM", "DIFFERS",
                     "NAME_TAKEN", "READ_ONLY", "UNSUPPORTED", "OTHER_MODEL", "NO_TEXT",
                     "INTERRUPTED"):
            self.assertIn(getattr(cli_case, name), manual)

    def test_advice_is_the_same_everywhere(self):
        table = page("docs/cli.md").split("| failure | code | what to do |\n|---|---|---|\n")[1]
        rows = re.findall(r"^\| (.*?) \| (\d+) \| (.*?) \|$", table.split("\n\n")[0], re.MULTILINE)
        documented = {kind: advice for kind, _, advice in rows}
        manual = self.run_ok("man").out.split(".SH ERRORS\n")[1].split(".SH")[0]
        manual = dict(re.findall(r"\.TP\n\\fB(.*?)\\fR\n(?:\\&)?(.*)\n",
                                 manual.replace("\\-", "-")))
        self.assertGreater(len(manual), 20)
        self.assertEqual(documented, manual)

    def test_variables_are_those_that_doctor_shows(self):
        shown = set(self.run_json("doctor", "--fast")["environment"])
        table = page("docs/cli.md").split("| variable | meaning |")[1].split("\n\n")[0]
        rows = " ".join(re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE))
        self.assertEqual(set(re.findall(r"`([A-Z_]+)`", rows)), shown)
        manual = self.run_ok("man").out.split(".SH ENVIRONMENT\n")[1]
        self.assertEqual(set(re.findall(r"^\\fB([A-Z_]+)\\fR$", manual, re.MULTILINE)), shown)


if __name__ == "__main__":
    cli_case.main()
