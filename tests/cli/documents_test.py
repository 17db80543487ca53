#!/usr/bin/env python3
"""Goal: what README.md and docs/cli.md show works as shown.

Method: every ```sh block with a line that begins with "attndb " is run by `sh -e`, from the
project's folder, in a home of its own. A line that sets PATH is left out: the binary under test
comes first. A block after a line <!-- not run --> is left out. With ATTNDB_TEST_STORE, a store that
holds the shipped text, that one is copied first: what the documents import is then known by another
name, and no model reads it again.
"""

import os
import pathlib
import re
import shutil
import subprocess

import cli_case
from cli_case import CliCase

BLOCK = re.compile(r"^(?P<before>[^\n]*)\n+```sh\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(document):
    text = (cli_case.ROOT / document).read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        lines = [line for line in match.group("code").splitlines()
                 if not line.startswith("export PATH=")]
        if "<!-- not run -->" in match.group("before"):
            continue
        if any(line.startswith("attndb ") or "| attndb " in line for line in lines):
            yield lines


class DocumentsTest(CliCase):
    def setUp(self):
        super().setUp()
        if "ATTNDB_TEST_STORE" in os.environ:
            shutil.copytree(os.environ["ATTNDB_TEST_STORE"], self.store)

    def run_blocks(self, document):
        home = self.dir / "home"
        home.mkdir()
        bin_folder = self.dir / "bin"
        bin_folder.mkdir()
        (bin_folder / "attndb").symlink_to(cli_case.attndb())
        env = cli_case.environment(self.store)
        env.update(HOME=str(home), XDG_CACHE_HOME=str(pathlib.Path.home() / ".cache"),
                   PATH=f"{bin_folder}:{os.environ['PATH']}")
        script = "\n".join(line for block in blocks(document) for line in block)
        self.assertIn("attndb ", script)
        done = subprocess.run(["sh", "-ex", "-c", script], env=env, cwd=cli_case.ROOT,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=800,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-4000:])

    def test_the_readme(self):
        self.run_blocks("README.md")

    def test_the_command_lines_own_document(self):
        self.run_blocks("docs/cli.md")


if __name__ == "__main__":
    cli_case.main(needs_model=True)
