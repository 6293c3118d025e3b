"""Goal: the trace of a run shows what every actor of every process did, and Perfetto accepts it.
Method: a short run of the real program on three processes, its trace read as JSON; the rules of the viewers are checked on it.

usage: actor_trace_test.py SOURCE_DIR EMPLACE
"""
import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]
CONFIG = os.path.join(SOURCE, "configs", "quickstart.toml")
CLUSTER = os.path.join(SOURCE, "configs", "clusters", "process-per-actor.toml")
SHORT = ["--episodes", "12", "--set", 'run.starts=["best-heuristic"]', "--set", 'compare.methods=["single-cpu"]', "--quiet"]


def emplace(*arguments, status=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


class ActorTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_dir = os.path.join(cls.folder.name, "run")
        path = os.path.join(cls.folder.name, "trace.json")
        emplace("run", CONFIG, "--cluster", CLUSTER, "--run-dir", cls.run_dir, "--trace", path, *SHORT)
        with open(path, encoding="utf-8") as file:
            cls.trace = json.load(file)
        cls.events = [e for e in cls.trace["traceEvents"] if e["ph"] != "M"]
        cls.names = {"process_name": {}, "thread_name": {}}
        for event in cls.trace["traceEvents"]:
            if event["ph"] == "M" and event["name"] in cls.names:
                cls.names[event["name"]][event["pid"], event.get("tid")] = event["args"]["name"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def slices(self, actor):
        return [e for e in self.events if e["ph"] == "X" and self.names["thread_name"][e["pid"], e["tid"]] == actor]

    def test_times_increase_and_slices_do_not_overlap(self):
        free, last = collections.defaultdict(float), 0
        for event in self.events:
            self.assertIsInstance(event["ts"], float)
            self.assertGreaterEqual(event["ts"], last)
            last = event["ts"]
            if event["ph"] == "X":
                track = event["pid"], event["tid"]
                self.assertGreaterEqual(event["ts"], free[track] - 1e-6, event)
                free[track] = event["ts"] + event["dur"]

    def test_contains_every_actor_of_every_process(self):
        processes = set(self.names["process_name"].values())
        self.assertIn("head", processes)
        self.assertGreater(len(processes), 1)
        actors = set(self.names["thread_name"].values())
        for actor in ("dispatcher/0", "recorder/0", "tracker/0", "learner/0", "sampler/0", "executor/0", "executor/1", "view/0"):
            self.assertIn(actor, actors)
            self.assertTrue(self.slices(actor), actor)

    def test_phases_show_what_actors_were_busy_with(self):
        for actor, phase in (("executor/0", "measure"), ("learner/0", "update"), ("recorder/0", "commit"), ("sampler/0", "draw")):
            found = self.slices(actor + " is busy with")
            self.assertTrue(found, actor)
            self.assertEqual({e["name"] for e in found}, {phase})
            self.assertTrue(all(e["dur"] >= 0 for e in found))

    def test_messages_have_their_sender_and_waiting_time(self):
        leases = [e for e in self.slices("executor/0") if e["name"] == "LeaseGranted"]
        self.assertTrue(leases)
        for lease in leases:
            self.assertEqual(lease["args"]["from"], "dispatcher/0")
            self.assertGreaterEqual(lease["args"]["queued_us"], 0)
            self.assertLess(lease["args"]["queued_us"], 60e6)

    def test_flows_connect_pairs_of_slices(self):
        ends = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] in "sf":
                self.assertLess(event["id"], 2 ** 31)
                ends[event["id"]].append(event)
        self.assertGreater(len(ends), 100)
        busy = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] == "X":
                busy[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for pair in ends.values():
            self.assertEqual([e["ph"] for e in pair], ["s", "f"])
            for event in pair:
                around = busy[event["pid"], event["tid"]]
                self.assertTrue(any(begin - 1e-3 <= event["ts"] <= end + 1e-3 for begin, end in around), event)

    def test_leaves_no_other_files(self):
        self.assertNotIn("trace", os.listdir(self.run_dir))
        self.assertEqual(self.trace["otherData"]["overwritten"], 0)
        self.assertEqual(self.trace["otherData"]["nodes_set_by_wall_clock"], [])

    def test_a_config_key_requests_a_trace(self):
        run_dir = os.path.join(self.folder.name, "again")
        emplace("run", CONFIG, "--run-dir", run_dir, "--set", "record.trace=true", *SHORT)
        with gzip.open(os.path.join(run_dir, "trace.json.gz")) as file:
            self.assertGreater(len(json.load(file)["traceEvents"]), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
