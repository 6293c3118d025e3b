#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus from the repository's own fixtures, small. Findings are added beside them by hand.

    usage: tests/fuzz/make_corpus.py RUN_DB      (a run.db of a short run, for the seed of run_db)
"""

import gzip
import json
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
CORPUS = TREE / "tests/fuzz/corpus"
TYPES = {name: int(number)
         for name, number in re.findall(r"TYPE\((\w+), (\d+)\)", (TREE / "messages/type_ids.h").read_text())}
SESSION = {"Hello": 0, "Welcome": 1, "Beat": 2, "Bye": 3, "ByeAck": 4}
KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
SECRET = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"


def put(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def msgpack(value):
    if value is None or isinstance(value, bool):
        return bytes([{None: 0xc0, False: 0xc2, True: 0xc3}[value]])
    if isinstance(value, int):
        return struct.pack(">B", value) if 0 <= value < 128 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xda" + struct.pack(">H", len(text)) + text
    if isinstance(value, list):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(msgpack, value))
    return b"\xde" + struct.pack(">H", len(value)) + b"".join(msgpack(k) + msgpack(v) for k, v in value.items())


def frames(path):
    data, parts = path.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<I", data)
        parts.append(data[4:4 + size])
        data = data[4 + size:]
    return parts


def wire():
    golden = max((TREE / "tests/wire/golden").glob("v*"))
    records = b""
    for path in sorted(golden.glob("*.bin")):
        envelope, body, bulk = frames(path)
        number = TYPES.get(path.stem, 0xf0 + SESSION.get(path.stem, 0))
        put("message", path.stem, bytes([number]) + body)
        record = struct.pack("<III", len(envelope), len(body), len(bulk)) + envelope + body + bulk
        if path.stem in ("Heartbeat", "ParametersRequested", "BestFound"):
            records += record
            put("frame", path.stem, record)
            put("frame", "envelope-" + path.stem, envelope)
    put("frame", "batch", records)


def router():
    ping = bytes([0x83, 0xa6]) + b"number" + bytes([1, 0xa4]) + b"text" + bytes([0xa0, 0xa4]) + b"blob" + bytes([0x92, 0, 0])

    def some(data):
        return bytes([len(data) & 0xff, len(data) >> 8]) + data

    put("router_input", "ping", bytes([0x01, 40, 0]) + some(ping))
    put("router_input", "to-the-other", bytes([0x01, 40, 1]) + some(ping))
    put("router_input", "large", bytes([0x05, 40, 0]) + some(ping) + some(b"bulk"))
    put("router_input", "newest", bytes([0x09, 130, 1]) + some(b"\x80") + bytes([130, 1]) + some(b"\x80"))
    put("router_input", "urgent", bytes([0x00, 100, 0]) + some(b"\x80"))
    put("router_input", "beat", bytes([0x00, 0xe2, 0]) + some(b"\x82\xa6joined\x91\xa6evil/1\xa4left\x90"))
    put("router_input", "bye", bytes([0x00, 0xe3, 0]) + some(b"\x82\xa6reason\xa1x\xa6fenced\xc2"))
    put("router_input", "loop-stop", bytes([0x00, 0xf0, 0]) + some(b"\x81\xa6finish\xc3"))
    put("router_input", "garbage", bytes([0x03]) + some(b"\xdd\xff\xff\xff\xff") + bytes([0x37]) + some(b"a") + some(b"b"))


def meaning():
    """What each byte means is in meaning_target.cc: a join, 20 ms, then answers with one field changed."""
    join, wait, beat = bytes([0, 0, 0]), bytes([7, 2]), bytes([1, 0, 2, 7, 1])

    def answer(*change):  # To the newest lease; without arguments nothing is changed.
        return bytes([4, 0, 1 if change else 0, *change])

    def shared(field, *value):
        return answer(9, field, *value)

    nan, minus_zero, minus_one, most = 6, 1, 3, 7
    for name, commands in {
            "honest": answer() + wait + answer(),
            "nan": shared(1, 0, nan) * 4 + wait + shared(1, 0, nan),
            "minus-zero": shared(1, 0, minus_zero),
            "negative": shared(1, 0, minus_one),
            "label": shared(8, 0, 3),
            "valid": shared(0, 0, 3),
            "bytes": shared(4, 0, most) + wait + shared(2, 0, 6),
            "samples": bytes([4, 0, 2, 9, 9, 0, 4, 9, 10, 0, nan]),
            "failure": bytes([4, 0, 2, 9, 0, 0, 0, 9, 7, 0, 5, 0x1b, 0xff, 0x3c, 0x41, 0x3e]),
            "error": answer(5, 3, 0x62, 0x6f, 0x6f),
            "another-placement": answer(0, 5),
            "another-lease": answer(6, 1),
            "name": answer(2, 2, 0xff, 0x1b),
            "hold": beat + wait + beat + bytes([7, 255]) * 8 + beat,
            "leave": bytes([3, 1, 0, 0]) + bytes([0, 1, 0]) + bytes([3, 2, 0, 0]),
            "credit": bytes([2, 1, most, most]) + beat,
            "two": bytes([0x40, 0, 0]) + wait + shared(1, 0, 4) + bytes([0x44, 0, 1, 5, 1, 0x41])}.items():
        put("meaning", name, join + wait + commands + wait)
    put("meaning", "report", bytes([6, 0, 0, 1, 1]) + bytes([6, 1, 1, 9, 1, 0, nan, 1, 1]) + bytes([6, 1, 0, 4, 0]))
    put("meaning", "report-names", bytes([6, 0, 1, 4, 0, 2, 0xff, 0x1b, 1, 0]) + bytes([6, 0, 1, 0, 3, 0x68, 0x61, 0x73, 1, 1]))


def graphs():
    whole = json.loads((TREE / "tests/fixtures/graphs/cifar10_cnn-bs128.json").read_text())
    whole["ops"] = whole["ops"][:8]
    whole.pop("meta", None)
    put("graph_json", "cifar10-8-ops", json.dumps(whole, separators=(",", ":")))
    small = {"format": "emplace-graph v1", "name": "all keys", "source": "seed", "meta": {"batch": 1},
             "ops": [{"id": 0, "name": "w", "type": "Parameter", "inputs": [],
                      "outputs": [{"dtype": "f32", "shape": [4, 2]}], "attrs": {"k": [1, 2.5, "x", None, True]},
                      "flops": 0, "param_bytes": 32, "group": "g", "phase": "forward", "colocate": 1},
                     {"id": 1, "name": "y", "type": "MatMul", "inputs": [[0, 0]],
                      "outputs": [{"dtype": "f16", "shape": []}, {"dtype": "i64", "shape": [0]}], "attrs": {},
                      "flops": 16, "param_bytes": 0, "measured_us": {"cpu": 1.5}, "devices": ["cpu:0"]}]}
    put("graph_json", "all-keys", json.dumps(small))
    put("graph_json", "empty", '{"format": "emplace-graph v1", "ops": []}')
    put("graph_msgpack", "cifar10-8-ops", msgpack(whole))
    put("graph_msgpack", "all-keys", msgpack(small))
    shutil.copy(TREE / "tests/fixtures/graphs/alexnet.onnx", CORPUS / "foreign_graph" / "alexnet")
    layers = (TREE / "tests/fixtures/third_party/pipedream/alexnet.txt").read_text().splitlines(keepends=True)
    put("foreign_graph", "pipedream", "".join(line for line in layers if re.search(r"node(1|2|3)\b(?!.*node4)", line)))
    formats = TREE / "tests/fixtures/formats"
    for target, name in [("fx", "cnn_forward.txt"), ("fx", "cnn_dynamic_dynamo.txt"), ("hlo", "block_lowered.hlo"), ("hlo", "loop_compiled.hlo"),
                         ("doppler", "doppler.txt"), ("piper", "piper.json"), ("pt2", "cnn.pt2")]:
        put(target, pathlib.Path(name).stem, (formats / name).read_bytes())
    for name in ["torch_moe", "cond_if", "scripted_loop", "convnet_qoperator", "legacy_lstm"]:
        packed = TREE / f"tests/fixtures/onnx/{name}.onnx.zst"
        put("onnx", name, subprocess.run(["zstd", "-dc", packed], check=True, capture_output=True).stdout)
    put("onnx", "functions", functions())
    put("tf_graphdef", "nodes", tensorflow())
    for name in ("saved_model.pb", "mlp.meta", "nested.pb", "branches.pb", "lstm_functions.bare.pb"):
        packed = (TREE / "tests/fixtures/tensorflow" / (name + ".gz")).read_bytes()
        put("tf_graphdef", name.replace(".", "-"), gzip.decompress(packed))
    put("foreign_graph", "tf-graphdef", tensorflow())  # Its text forms lie beside it by hand.


def field(number, data):
    """Of a protobuf message: bytes with their length, or a small number."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    return bytes([value]) if value < 0x80 else bytes([value & 0x7f | 0x80]) + varint(value >> 7)


def functions():
    """An ONNX model with an open batch, a function with an attribute of its caller, and a sparse weight."""
    dims = field(1, field(2, "batch")) + field(1, field(1, 8))
    image = field(1, "x") + field(2, field(1, field(1, 1) + field(2, dims)))
    relu = field(1, "a") + field(2, "b") + field(3, "r") + field(4, "LeakyRelu") + \
        field(5, field(1, "alpha") + field(21, "slope") + field(20, 1))
    function = field(1, "F") + field(4, "a") + field(4, "s") + field(5, "c") + field(7, relu) + \
        field(7, field(1, "b") + field(1, "s") + field(2, "c") + field(4, "MatMul") + field(6, "doc")) + field(10, "mine")
    call = field(1, "x") + field(1, "s") + field(2, "y") + field(3, "call") + field(4, "F") + field(7, "mine")
    sparse = field(1, field(1, 3) + field(2, 1) + field(8, "s")) + field(2, field(1, 3) + field(2, 7)) + field(3, 8) + field(3, 4)
    graph = field(1, call) + field(2, "g") + field(15, sparse) + field(11, image) + field(12, field(1, "y"))
    return field(1, 10) + field(7, graph) + field(8, field(1, "") + field(2, 20)) + field(25, function)


def tensorflow():
    """A variable that is read in a loop and trained, in protobuf's binary form."""
    def attr(key, value):
        return field(5, field(1, key) + field(2, value))

    def node(name, op, *inputs, more=b""):
        shapes = attr("_output_shapes", field(1, field(7, field(2, field(1, 4)))))
        return field(1, field(1, name) + field(2, op) + b"".join(field(3, one) for one in inputs) + shapes + more)

    loop = attr("frame_name", field(2, "f"))
    return (node("w", "VariableV2", more=attr("shape", field(7, field(2, field(1, 4)))) + attr("dtype", field(6, 1))) +
            node("w/Assign", "Assign", "w", "c") + node("c", "Const") + node("e", "Enter", "w", more=loop) +
            node("m", "Merge", "e", "n") + node("b", "MatMul", "m", "m:0", "^e") + node("n", "NextIteration", "b") +
            node("x", "Exit", "m") + node("gradients/b_grad/Mul", "Mul", "x", "c") +
            node("t", "ApplyMomentum", "w", "v", "gradients/b_grad/Mul", more=attr("_class", field(1, field(2, "loc:@w")))) +
            node("v", "VarHandleOp", more=attr("shape", field(7, field(2, field(1, 4))))))


def texts():
    for name in ("quickstart", "placeto-2gpu", "h200-2gpu"):
        put("devices", name, (TREE / f"configs/devices/{name}.toml").read_bytes())
    put("config", "quickstart", (TREE / "configs/quickstart.toml").read_bytes())
    put("config", "reference", "\n".join(line.split(" #")[0] for line in (TREE / "configs/reference.toml").read_text().splitlines()
                                         if line and not line.startswith("#")))
    put("config", "allow-list", f'[[key]]\nname = "a"\npublic = "{KEY}"\nroles = ["executor", "actor"]\n')
    put("config", "key", f'name = "a"\npublic = "{KEY}"\nsecret = "{SECRET}"\nhead = "{KEY}"\n')
    put("placement", "two-ops", json.dumps({
        "format": "emplace-placement", "version": 1, "graph": "two", "graph_sha256": "two", "devices": ["cpu:0"],
        "ops": {"a": "cpu:0", "b": "cpu:0"}, "measured": {"step_time_s": 0.5, "executor": "sim"}, "method": "random",
        "seed": 1, "created": "2026-01-01T00:00:00Z"}))


def database(path):
    target = CORPUS / "run_db" / "run"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with sqlite3.connect(path) as source, sqlite3.connect(target) as small:
        source.backup(small)
    small = sqlite3.connect(target, isolation_level=None)
    small.execute("PRAGMA journal_mode=DELETE")
    small.execute("UPDATE checkpoints SET parameters = x'00', optimizer = x'00'")  # Large, and opaque to the reader.
    small.execute("UPDATE runs SET config = 'config', devices = '[]'")
    small.execute("PRAGMA page_size=512")
    small.execute("VACUUM")
    small.close()
    source.close()


(CORPUS / "foreign_graph").mkdir(parents=True, exist_ok=True)
wire()
router()
meaning()
graphs()
texts()
if len(sys.argv) > 1:
    database(sys.argv[1])
