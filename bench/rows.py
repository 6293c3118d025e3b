"""What the resumable benchmarks share: the program as a command, and the file of finished rows."""
import json
import os
import subprocess
import sys
import tempfile


class Failed(Exception):
    """A command that failed, with its error message."""


def run_program(program, words, allowed=(0,)):
    """The JSON object that a command prints; None for an allowed exit status without one. Raises Failed."""
    return run_measured(program, words, allowed)[0]


def run_measured(program, words, allowed=(0,)):
    """The object of run_program, and the processor time [s] of the command and of its children."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([program, *words, "--json", "--quiet"], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text, lines = output.read(), errors.read().strip().splitlines()
    if process.returncode in (130, 143) or process.returncode < 0:
        raise KeyboardInterrupt
    if process.returncode not in allowed:
        raise Failed((lines or ["exit status %d" % process.returncode])[-1].removeprefix("error: "))
    return json.loads(text) if text.strip() else None, usage.ru_utime + usage.ru_stime


def finish(failures, what):
    """The exit status of a job, after a line for its failures."""
    if failures:
        print("%d %s failed; repeat the command to retry them" % (failures, what), file=sys.stderr)
    return 1 if failures else 0


class Rows:
    """A file of finished rows, one JSON object per line. `key` maps a row to its identity: of two rows with the same
    one the later counts. A line truncated by a crash is dropped with a warning."""

    def __init__(self, path, key):
        self.path, self.key, self.rows, complete = path, key, {}, 0
        if os.path.exists(path):
            with open(path, "rb") as f:
                for line in f:
                    try:
                        row = json.loads(line)
                    except ValueError:
                        break
                    self.rows[key(row)] = row
                    complete += len(line)
            if complete < os.path.getsize(path):
                print("%s: dropped the incomplete last line" % path, file=sys.stderr)
                with open(path, "rb+") as f:
                    f.truncate(complete)

    def add(self, row):
        self.rows[self.key(row)] = row
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")
            f.flush()
            os.fsync(f.fileno())
