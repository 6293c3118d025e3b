"""Goal: common readers read every format that `emplace export` writes, and find the same data in each.
Method: a short run of the real program, exported to every format; Python's csv and json, and a reader of event files
of our own (framing, CRC-32C and protobuf by hand) agree with the database.

usage: export_readers_test.py SOURCE_DIR EMPLACE
"""
import csv
import json
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]
CONFIG = os.path.join(SOURCE, "configs", "quickstart.toml")


def emplace(*arguments, status=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8]), "the checksum of a length"
        body = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), "the checksum of an event"
        yield body
        at += 16 + length


def fields(message):
    """Number and value of every field of a protobuf message."""
    def varint(at):
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at
    at = 0
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", message, at)[0], at + 8
        elif key & 7 == 2:
            length, at = varint(at)
            value, at = message[at:at + length], at + length
        else:
            value, at = struct.unpack_from("<f", message, at)[0], at + 4
        yield key >> 3, value


def scalars(path):
    """(tag, step, wall time, value) of an event file."""
    with open(path, "rb") as file:
        events = [dict(fields(body)) for body in records(file.read())]
    assert events[0][3] == b"brain.Event:2"
    for event in events[1:]:
        for _, value in fields(event[5]):
            value = dict(fields(value))
            yield value[1].decode(), event.get(2, 0), event[1], value[2]


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_dir = cls.at("run")
        emplace("run", CONFIG, "--episodes", "12", "--set", 'run.starts=["best-heuristic"]', "--set", 'compare.methods=["single-cpu"]',
                "--set", "executor.count=1", "--run-dir", cls.run_dir, "--quiet")
        with sqlite3.connect(os.path.join(cls.run_dir, "run.db")) as db:
            cls.rows = db.execute("SELECT e.seq, m.placement_id, m.valid, m.step_time_s, m.peak_bytes FROM measurements m "
                                  "JOIN episodes e USING (episode) ORDER BY e.seq, m.number").fetchall()
            cls.losses = db.execute('SELECT "update", loss FROM updates ORDER BY 1').fetchall()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def test_csv(self):
        emplace("export", self.run_dir, "--to", "csv", "-o", self.at("rows.csv"))
        with open(self.at("rows.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(self.rows))
        for row, (seq, placement_id, valid, step_time_s, peak) in zip(rows, self.rows):
            self.assertEqual((int(row["seq"]), int(row["placement_id"])), (seq, placement_id))
            self.assertEqual(row["valid"], "true" if valid else "false")
            self.assertEqual(row["step_time_s"], "" if not valid else row["step_time_s"])
            if valid:
                self.assertEqual(float(row["step_time_s"]), step_time_s)
            self.assertEqual([row["peak_bytes " + d] for d in ("cpu:0", "gpu:0", "gpu:1")], peak.split())

    def test_jsonl(self):
        emplace("export", self.run_dir, "--to", "jsonl", "-o", self.at("rows.jsonl"))
        with open(self.at("rows.jsonl"), encoding="utf-8") as file:
            episodes = [json.loads(line) for line in file]
        read = [(e["seq"], m["placement_id"], m["valid"], m["step_time_s"]) for e in episodes for m in e["measurements"]]
        self.assertEqual(read, [(s, p, bool(v), t if v else None) for s, p, v, t, _ in self.rows])

    def test_tensorboard(self):
        emplace("export", self.run_dir, "--to", "tensorboard")
        emplace("export", self.run_dir, "--to", "tensorboard")  # Replaces the first.
        files = os.listdir(os.path.join(self.run_dir, "tensorboard"))
        self.assertEqual(len(files), 1)
        self.assertTrue(files[0].startswith("events.out.tfevents."))
        read = list(scalars(os.path.join(self.run_dir, "tensorboard", files[0])))
        losses = [(step, value) for tag, step, _, value in read if tag == "learner/loss"]
        self.assertEqual(losses, [(u, struct.unpack("<f", struct.pack("<f", loss))[0]) for u, loss in self.losses])
        best = [value for tag, _, _, value in read if tag == "cost/step_time_best"]
        self.assertEqual(best, sorted(best, reverse=True))
        walls = [wall for _, _, wall, _ in read]
        self.assertTrue(all(wall > 1e9 for wall in walls))

    def test_placement(self):
        graph = os.path.join(SOURCE, "tests", "fixtures", "graphs", "cifar10_cnn-bs128.json")
        emplace("place", graph, "--devices", os.path.join(SOURCE, "configs", "devices", "quickstart.toml"), "--method", "random",
                "-o", self.at("placement.json"))
        done = emplace("export", self.at("placement.json"), "--graph", graph, "--to", "csv", "-o", self.at("p.csv"), "--json")
        self.assertIs(json.loads(done.stdout)["exact"], True)
        with open(self.at("placement.json")) as file:
            ops = json.load(file)["ops"]
        with open(self.at("p.csv"), newline="") as file:
            self.assertEqual({row["op"]: row["device"] for row in csv.DictReader(file)}, ops)

    def test_errors_are_reported_in_one_line(self):
        for arguments in (["nowhere", "--to", "csv", "-o", "x"], [self.folder.name, "--to", "csv", "-o", "x"],
                          [self.run_dir, "--to", "parquet", "-o", "x"], [self.run_dir, "--to", "csv"],
                          [self.run_dir, "--to", "csv", "-o", self.at("no/such/x")],
                          [self.run_dir, "--to", "csv", "--graph", "g", "-o", "x"]):
            with self.subTest(arguments=arguments):
                done = emplace("export", *arguments, status=2)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertTrue(done.stderr.startswith("error: "))
        os.mkdir(self.at("damaged"))
        with open(self.at("damaged/run.db"), "wb") as file:
            file.write(b"SQLite format 3\0" + bytes(range(256)) * 40)
        emplace("export", self.at("damaged"), "--to", "csv", "-o", self.at("x"), status=2)
        self.assertFalse(any(".part" in name or name == "x" for name in os.listdir(self.folder.name)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
