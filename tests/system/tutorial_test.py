"""Goal: every shell command of docs/guide/tutorial.md works as it is printed there.
Method: the ```sh blocks are run in order by one bash, which stops at the first failure, in a temporary folder that has
the repository's configs and fixtures and the program's build folder at the paths that the page uses. The files that the
page mentions exist afterwards.

usage: tutorial_test.py SOURCE_DIR EMPLACE
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
PAGE = os.path.join(SOURCE, "docs", "guide", "tutorial.md")


def shell_blocks(page):
    """First line number and text of every ```sh block."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    return [(text.count("\n", 0, block.start(1)) + 1, block[1])
            for block in re.finditer(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


class Tutorial(unittest.TestCase):
    def test_every_command_works(self):
        blocks = shell_blocks(PAGE)
        self.assertGreater(len(blocks), 10, "the page has lost its commands")
        script = "set -euo pipefail\n" + "".join(
            f"echo 'tutorial.md:{line}' >&2\n{commands}" for line, commands in blocks)
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "build"))
            os.makedirs(os.path.join(folder, "tests"))
            os.symlink(os.path.dirname(PROGRAM), os.path.join(folder, "build", "release"))
            os.symlink(os.path.join(SOURCE, "configs"), os.path.join(folder, "configs"))
            os.symlink(os.path.join(SOURCE, "tests", "fixtures"), os.path.join(folder, "tests", "fixtures"))
            done = subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, "the block named last failed:\n" + done.stdout)
            with open(PAGE, encoding="utf-8") as file:
                mentioned = sorted(set(re.findall(r"\btutorial/[\w.-]+(?:/[\w.-]*\w)?", file.read())))
            for path in mentioned:
                self.assertTrue(os.path.exists(os.path.join(folder, path)), path + " is not made by the page")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
