"""The runner of the tables of bench/: jobs that make rows, the file of finished rows, and Markdown. A table's own file has
its jobs and its page."""
import argparse
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

ENDINGS = (".json.gz", ".json", ".json.zst", ".epg", ".msgpack")


class Failed(Exception):
    """A command that failed, with its error message."""


def run_program(program: str, words: Sequence[str], allowed: Sequence[int] = (0,)) -> Any:
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


def parser_of(text, **options):
    """A parser whose help is the text of a driver; `options` are common to all: `out`, the default file of rows."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=options.get("program", "build/release/emplace"))
    parser.add_argument("--out", required="out" not in options, default=options.get("out"),
                        help="file of rows, one JSON object per line; existing rows are reused")
    parser.add_argument("--only", default="", metavar="REGEX")
    return parser


def run_jobs(add, jobs, show, workers=None, minutes=0, at_stop=lambda: None):
    """Makes rows, on this thread or on a number of others, and starts none after `minutes` (0: no limit).

    A job is (name, make); make() returns a row, which goes to `add`, or None if there is nothing to do. Prints a line for
    each row, ending in show(row), and for each that failed. Returns the number of failures. Raises KeyboardInterrupt when
    the jobs in progress have ended; `at_stop` ends them early."""
    jobs, failures, stop, lock = list(jobs), [], threading.Event(), threading.Lock()
    deadline = time.monotonic() + minutes * 60 if minutes else math.inf

    def one(number, name, make):
        if stop.is_set() or time.monotonic() > deadline:
            return
        name = "[%d/%d] %s" % (number, len(jobs), name)
        try:
            row = make()
        except KeyboardInterrupt:
            stop.set()
            return
        except Exception as failure:  # One job that breaks must not end the others.
            failures.append(name)
            print("%s: %s" % (name, failure), file=sys.stderr)
            return
        if row is not None:
            with lock:
                add(row)
            print("%s: %s" % (name, show(row)), file=sys.stderr)

    if workers is None:
        for number, job in enumerate(jobs, 1):
            one(number, *job)
    else:
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            try:
                for future in [pool.submit(one, number, *job) for number, job in enumerate(jobs, 1)]:
                    future.result()
            except KeyboardInterrupt:
                stop.set()
                at_stop()
    if stop.is_set():
        raise KeyboardInterrupt
    return len(failures)


def finish(failures, what):
    """The exit status of a job, after a line for its failures."""
    if failures:
        print("%d %s failed; repeat the command to retry them" % (failures, what), file=sys.stderr)
    return 1 if failures else 0


def exit_status(run: Callable[[], int]) -> int:
    """The exit status of a driver: what run() returns, 130 if it was interrupted, 2 if it cannot run."""
    try:
        return run()
    except KeyboardInterrupt:
        print("interrupted; repeat the command to continue", file=sys.stderr)
        return 130
    except (Failed, OSError) as failure:
        print("error: %s" % failure, file=sys.stderr)
        return 2


def find_graph(folder, name):
    """The file of a graph. Raises Failed."""
    paths = [os.path.join(folder, name + ending) for ending in ENDINGS]
    found = next((path for path in paths if os.path.exists(path)), None)
    if found is None:
        raise Failed("%s has no graph '%s' (%s)" % (folder, name, " ".join(ENDINGS)))
    return found


def write_machine(path, gpus, profile="k40", memory_bytes=None):
    """Writes the device file of a Haswell CPU and GPUs on PCIe, each with all its memory or with so much; its path."""
    memory = 'memory = "%dB"\n' % memory_bytes if memory_bytes else ""
    text = '[[device]]\nname = "cpu:0"\nprofile = "haswell18"\n'
    text += "".join('[[device]]\nname = "gpu:%d"\nprofile = "%s"\n%s' % (k, profile, memory) for k in range(gpus))
    with open(path, "w") as file:
        file.write(text + '[[link]]\nbetween = ["*", "*"]\nprofile = "pcie3_x16"\n')
    return path


def mean(ratios):
    """The geometric mean; not a number without ratios."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def ms(seconds):
    return "–" if seconds is None else "%.1f" % (seconds * 1e3)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """A Markdown table whose first `left` columns are aligned to the left."""
    lines = ["| %s |" % " | ".join(head), "|" + "---|" * left + "--:|" * (len(head) - left)]
    return "\n".join(lines + ["| %s |" % " | ".join(map(str, row)) for row in rows]) + "\n"


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
