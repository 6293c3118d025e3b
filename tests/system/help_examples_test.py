"""Goal: `emplace CMD --help` ends with one example, and each example works as it is printed.
Method: the examples are read from the program and run in order by one bash in a temporary folder that has the
repository's configs and fixtures. Those of `up`, `ps`, `join` and `down` run beside a cluster that `up` starts.

usage: help_examples_test.py SOURCE_DIR EMPLACE
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
# A command's example reads what those before it have written.
ALONE = ["doctor", "version", "inspect", "bound", "compare", "place", "evaluate", "explain", "export", "import", "generate",
         "calibrate", "keygen", "run", "report", "runs", "replay"]
LABORATORY = ["train"]  # It takes a minute; scripts/pretrain.sh runs it.
CLUSTER = ["up", "ps", "join", "down"]


def output(*arguments):
    return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def example_of(command):
    return re.search(r"^Example: emplace (.*)$", output(command, "--help"), re.M)[1].split()


class HelpExamples(unittest.TestCase):
    def test_every_command_has_an_example(self):
        shown = re.search(r"^Subcommands:\n(.*?)\n\n", output("--help") + "\n\n", re.M | re.S)[1]
        listed = re.findall(r"^  (\S+)", shown, re.M)
        present = LABORATORY if re.search(r"^optional parts:.* lab\b", output("--version"), re.M) else []
        self.assertEqual(set(listed) - {"node"}, set(ALONE + present + CLUSTER), "node is started by run")

    def executors(self, up, settings, least):
        """Executors of the run that `up` has started, once there are at least `least`."""
        for _ in range(300):
            shown = subprocess.run([PROGRAM, *example_of("ps"), "--json"], **{**settings, "stderr": subprocess.DEVNULL})
            count = json.loads(shown.stdout)["executors"] if shown.returncode == 0 else 0
            if count >= least:
                return count
            self.assertIsNone(up.poll(), "the run has ended")
            time.sleep(0.1)
        self.fail(f"{count} executors after 30 s")

    def test_every_example_works(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "tests"))
            os.symlink(os.path.join(SOURCE, "configs"), os.path.join(folder, "configs"))
            os.symlink(os.path.join(SOURCE, "tests", "fixtures"), os.path.join(folder, "tests", "fixtures"))
            settings = {"cwd": folder, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                        "stderr": subprocess.STDOUT, "text": True}
            beside = os.listdir(os.path.dirname(PROGRAM))
            for command in ALONE:
                if command == "calibrate" and "emplace-exec-cpu" not in beside:
                    continue
                with self.subTest(command):
                    done = subprocess.run([PROGRAM, *example_of(command)], **settings)
                    self.assertEqual(done.returncode, 0, done.stdout)
            up = subprocess.Popen([PROGRAM, *example_of("up")], **settings)
            try:
                before = self.executors(up, settings, 1)
                join = subprocess.Popen([PROGRAM, *example_of("join")], **settings)
                self.executors(up, settings, before + 2)
                watch = subprocess.Popen([PROGRAM, *example_of("ps"), "--watch"], **settings)  # Until the run is over.
                for command in ("ps", "down"):
                    with self.subTest(command):
                        done = subprocess.run([PROGRAM, *example_of(command)], **settings)
                        self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual(join.wait(60), 0, join.stdout.read())
                self.assertEqual(watch.wait(60), 0, watch.stdout.read())
                # 3: nothing fitted before `down` ended the run.
                self.assertIn(up.wait(60), (0, 3), up.stdout.read())
            finally:
                up.kill()
                up.communicate()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
