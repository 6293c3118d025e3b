"""What the tests of the checkers share: small made-up trees in a temporary folder, checked by the real script."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckerTest(unittest.TestCase):
    SCRIPT = None  # Name of the checker in scripts/.
    SOUND = {}  # A tree that passes: file to text.

    def run_on(self, files):
        """Exit status and errors for a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / name).write_text(text)
            done = subprocess.run([sys.executable, str(ROOT / "scripts" / self.SCRIPT), folder], capture_output=True, text=True)
            return done.returncode, done.stderr

    def check(self, changes):
        """The same for the sound tree with some files changed."""
        return self.run_on({**self.SOUND, **changes})

    def refuses(self, changes, *words):
        status, errors = self.check(changes)
        self.assertEqual(status, 1, errors)
        for word in words:
            self.assertIn(word, errors)
