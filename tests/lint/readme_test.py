#!/usr/bin/env python3
"""Goal: what the documents show is true: code that compiles, flags and files that exist.

Method: the README's C++ block must stand word for word between the [README] marks of an example
(which is built and run as a test of its own); every flag of every `attndb` command in a shell block
must be in that command's --help; every relative link of every document must lead to a file.
"""

import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ATTNDB = ""  # The command line; set by --attndb.


def documents():
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


class ReadmeTest(unittest.TestCase):
    def test_its_cpp_is_that_of_an_example(self):
        examples = [re.search(r"// \[README\]\n(.*)// \[/README\]", path.read_text(), re.DOTALL)
                    for path in (ROOT / "examples").glob("*.cc")]
        shown = blocks((ROOT / "README.md").read_text(), "cpp")
        self.assertTrue(shown)
        for block in shown:
            self.assertIn(block, [match.group(1) for match in examples if match])

    def test_its_commands_have_the_flags_they_use(self):
        lines = [line for block in blocks((ROOT / "README.md").read_text(), "sh")
                 for line in block.splitlines() if line.startswith("attndb ")]
        self.assertTrue(lines)
        for line in lines:
            words = shlex.split(line, comments=True)
            done = subprocess.run([ATTNDB, words[1], "--help"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, line)
            for flag in (word for word in words if word.startswith("-")):
                self.assertRegex(done.stdout, rf"(?<![\w-]){re.escape(flag)}(?![\w-])", line)

    def test_every_link_leads_to_a_file(self):
        for document in documents():
            for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
                if "://" not in link:
                    with self.subTest(document=document.name, link=link):
                        self.assertTrue((document.parent / link).exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attndb", required=True)
    ATTNDB = parser.parse_args().attndb
    unittest.main(argv=sys.argv[:1])
