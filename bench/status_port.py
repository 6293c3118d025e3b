#!/usr/bin/env python3
"""Cost of the status port: processor time of the launcher with a viewer and a scrape a second, and without.

A run of fake executors is in progress meanwhile. Prints shares of one core, the bytes that the viewer received, and the
measurements, lost and duplicated, of the run.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_s(pid):
    """Processor time of a process and its threads, without its children [s]."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Viewer(threading.Thread):
    """Reads the events and every report that they announce, as the page does, and scrapes once a second."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.bytes, self.reports, self.scrapes, self.ending = url, 0, 0, 0, False

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def scrape(self):
        while not self.ending:
            self.get("metrics")
            self.scrapes += 1
            time.sleep(1)

    def run(self):
        threading.Thread(target=self.scrape, daemon=True).start()
        with urllib.request.urlopen(self.url + "events", timeout=30) as stream:
            event = ""
            for line in stream:
                self.bytes += len(line)
                if line.startswith(b"event: "):
                    event = line[7:].strip()
                elif line.startswith(b"data: ") and event == b"report":
                    self.bytes += len(self.get("report.json"))
                    self.reports += 1
                if self.ending:
                    return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/emplace"))
    parser.add_argument("--config", default=str(ROOT / "configs/quickstart.toml"))
    parser.add_argument("--seconds", type=float, default=20, help="of each of the two phases")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = ['run.starts=["scratch"]', 'compare.methods=["scotch"]', *given.set]
        command = [given.program, "run", given.config, "--run-dir", folder + "/run", "--budget", "600s", "--json",
                   "--status", "127.0.0.1:0", *(word for one in settings for word in ("--set", one))]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            url = next(line for line in run.stderr if line.startswith("status ")).split()[1]
            next(line for line in run.stderr if "updates" in line)
            threading.Thread(target=run.stderr.read, daemon=True).start()

            def share():
                before, start = cpu_s(run.pid), time.monotonic()
                time.sleep(given.seconds)
                return (cpu_s(run.pid) - before) / (time.monotonic() - start)

            without = share()
            viewer = Viewer(url)
            viewer.start()
            time.sleep(2)  # The first report is read.
            received = viewer.bytes
            watched = share()
            per_s = (viewer.bytes - received) / given.seconds
            viewer.ending = True
        finally:
            run.send_signal(signal.SIGTERM)
            out, _ = run.communicate()
    summary = json.loads(out)
    print(f"launcher without a viewer   {100 * without:5.2f} % of a core")
    print(f"launcher with a viewer      {100 * watched:5.2f} % of a core, {viewer.scrapes} scrapes, "
          f"{viewer.reports} reports, {per_s / 1024:.1f} KiB/s to it")
    print(f"cost of the port            {100 * (watched - without):5.2f} % of a core")
    print(f"run: {summary['measurements']} measurements, lost {summary['lost']}, duplicated {summary['duplicated']}")


if __name__ == "__main__":
    main()
