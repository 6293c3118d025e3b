#!/usr/bin/env python3
"""Exports placements and runs them in the runtimes that they are for. scripts/verify_exports.sh installs the runtimes.

    usage: verify.py --program EMPLACE [--log FILE] [--models N] [--only submodels,onnx,openvino,tensorflow]

submodels   The models of tests/fixtures/onnx get random weights of the right shapes, as a file of external data beside the
            model. Each is placed on 2, 3 or 4 devices, contiguously and at random, and exported as sub-models. ONNX Runtime
            runs the whole model and the chain of sub-models on the same inputs; every output must have the same bits. Both
            run without graph optimisations: fusions across a cut differ from those of the whole model.
onnx        The checker of onnx accepts the model with device configurations and each sub-model, and the exported model
            computes the bits of the original.
openvino    OpenVINO's HETERO device compiles the model with the affinities of the export. There is no GPU here, so the
            plugin of the CPU is registered a second time and stands in for GPU.0.
tensorflow  TensorFlow runs a graph on the exported devices (logical CPUs, no soft placement) and without; outputs are equal.

Exit status: 0 if every check passed, 1 otherwise.
"""
import argparse
import collections
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.checker  # noqa: E402
import onnxruntime  # noqa: E402
import zstandard  # noqa: E402
from onnx import numpy_helper  # noqa: E402

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "onnx"
KINDS = ("submodels", "onnx", "openvino", "tensorflow")
LARGEST_WEIGHTS = 64 << 20
OPEN_SIZES = {"batch": 2, "sequence": 16, "seq": 16}


def devices_file(path, names):
    """A machine of these devices, all alike."""
    with open(path, "w", encoding="utf-8") as file:
        for name in names:
            file.write(f'[[device]]\nname = "{name}"\nprofile = "haswell18"\n')
        file.write('[[link]]\nbetween = ["*", "*"]\nbandwidth = "10GB/s"\nlatency = "1us"\n')


class Emplace:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments), "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"emplace {arguments[0]}: {done.stderr.strip().splitlines()[-1]}")
        return json.loads(done.stdout)

    def place(self, graph, devices, method, placement, more=()):
        return self.run("place", graph, "--devices", devices, "--method", method, "-o", placement, *more)

    def place_at_random(self, graph, devices, placement, rng, more=()):
        """Every op on a device of its own choice: parts of such a placement are far from convex."""
        self.place(graph, devices, "single-cpu", placement, more)
        made = json.loads(pathlib.Path(placement).read_text())
        made["ops"] = {op: made["devices"][rng.integers(len(made["devices"]))] for op in made["ops"]}
        pathlib.Path(placement).write_text(json.dumps(made))

    def export(self, placement, graph, to, output, more=()):
        return self.run("export", placement, "--graph", graph, "--to", to, "-o", output, *more)


# ---- models ----------------------------------------------------------------------------------------------------------

def random_weight(rng, tensor):
    """Values that keep activations finite: scaled by fan-in; positive where a scale or a variance is likely."""
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape, name = tuple(tensor.dims), tensor.name.lower()
    if kind == np.bool_:
        return rng.random(shape) < 0.5
    if np.issubdtype(kind, np.integer):
        return rng.integers(0, 2 if kind.itemsize > 1 else 16, shape).astype(kind)
    if "scale" in name and len(shape) < 2 and "quant" in name:
        return np.full(shape, 0.02, kind)
    if len(shape) >= 2:
        return (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(kind)
    if any(word in name for word in ("var", "scale", "weight", "gamma")):
        return (0.5 + rng.random(shape)).astype(kind)
    return (0.1 * rng.standard_normal(shape)).astype(kind)


def tensors_of(graph):
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for body in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from tensors_of(body)


def with_weights(name, folder, rng):
    """Writes NAME.onnx and NAME.onnx.data; the path, or None for a model that is too large for this check."""
    packed = (FIXTURES / f"{name}.onnx.zst").read_bytes()
    model = onnx.load_model_from_string(zstandard.ZstdDecompressor().stream_reader(packed).read())
    external = [t for t in tensors_of(model.graph) if t.data_location == onnx.TensorProto.EXTERNAL]
    sizes = [int(e.value) for t in external for e in t.external_data if e.key == "length"]
    if sum(sizes) > LARGEST_WEIGHTS:
        return None
    path, data = folder / f"{name}.onnx", folder / f"{name}.onnx.data"
    with open(data, "wb") as file:
        for tensor in external:
            file.write(b"\0" * (-file.tell() % 64))
            if tensor.data_type in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4):
                size = int(next(e.value for e in tensor.external_data if e.key == "length"))
                content = rng.integers(0, 256, size, dtype=np.uint8).tobytes()
            else:
                content = np.ascontiguousarray(random_weight(rng, tensor)).tobytes()
            del tensor.external_data[:]
            for key, value in (("location", data.name), ("offset", file.tell()), ("length", len(content))):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, str(value)
            file.write(content)
    path.write_bytes(model.SerializeToString())
    return path


def index_limit(graph, name):
    """The rows of the smallest table that an input indexes."""
    tables = {t.name: t.dims[0] for t in graph.initializer if len(t.dims) > 0}
    rows = [tables[n.input[0]] for n in graph.node
            if n.op_type == "Gather" and n.input[1] == name and n.input[0] in tables]
    return min(rows, default=2)


def inputs_of(model, rng):
    given = {}
    weights = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name in weights:
            continue
        shape = [d.dim_value if d.HasField("dim_value") else OPEN_SIZES.get(d.dim_param, 2)
                 for d in value.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if kind == np.bool_ or "mask" in value.name:
            given[value.name] = np.ones(shape, kind)
        elif np.issubdtype(kind, np.integer):
            given[value.name] = rng.integers(0, index_limit(model.graph, value.name), shape).astype(kind)
        else:
            given[value.name] = rng.standard_normal(shape).astype(kind)
    return given


def open_sizes(model):
    named = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_param}
    return [a for name in sorted(named) for a in ("--shape", f"{name}={OPEN_SIZES.get(name, 2)}")]


# ---- ONNX Runtime ----------------------------------------------------------------------------------------------------

def session_of(path, optimised=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_whole(path, inputs, optimised=False):
    session = session_of(path, optimised)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, {i.name: inputs[i.name] for i in session.get_inputs()})))


def run_chain(folder, inputs, optimised=False):
    """The sub-models in the order of the manifest; what is no longer read is kept, as these models are small."""
    manifest = json.loads((folder / "manifest.json").read_text())
    values = {name: inputs[name] for name in manifest["inputs"]}
    for part in manifest["parts"]:
        session = session_of(folder / part["file"], optimised)
        values.update(zip(part["outputs"], session.run(part["outputs"], {n: values[n] for n in part["inputs"]})))
    return {name: values[name] for name in manifest["outputs"]}, manifest


def same_bits(one, other):
    return set(one) == set(other) and all(
        one[n].dtype == other[n].dtype and one[n].shape == other[n].shape and one[n].tobytes() == other[n].tobytes()
        for n in one)


def largest_difference(one, other):
    worst = 0.0
    for name in one:
        a, b = np.asarray(one[name], np.float64), np.asarray(other[name], np.float64)
        scale = max(np.max(np.abs(a), initial=0), 1e-30)
        worst = max(worst, float(np.max(np.abs(a - b), initial=0) / scale))
    return worst


def is_finite(outputs):
    return all(np.isfinite(v).all() for v in outputs.values() if np.issubdtype(v.dtype, np.floating))


class Report:
    def __init__(self):
        self.lines, self.failed = [], []

    def add(self, line=""):
        self.lines.append(line)
        print(line, flush=True)

    def fail(self, what):
        self.failed.append(what)
        print("FAILED", what, flush=True)


def check_submodels(emplace, folder, report, models, also_onnx):
    rng = np.random.default_rng(7)
    machines = {}
    for count in (2, 3, 4):
        machines[count] = folder / f"{count}.toml"
        devices_file(machines[count], [f"cpu:{k}" for k in range(count)])
    tally = collections.Counter()
    report.add("## Sub-models in ONNX Runtime")
    report.add("")
    report.add("Parts: of the contiguous placement, then of a random one on three devices. Bits: those of the whole model, "
               "without")
    report.add("graph optimisations. Optimised: the same comparison with ONNX Runtime's default optimisations: equal, or the "
               "largest")
    report.add("difference as a share of the largest output.")
    report.add("")
    report.add("| model | nodes | devices | parts | bits | parts, random | bits | optimised |")
    report.add("|---|--:|--:|--:|---|--:|---|---|")
    for number, name in enumerate(models):
        path = with_weights(name, folder, rng)
        if path is None:
            tally["too large"] += 1
            continue
        model = onnx.load(path, load_external_data=False)
        inputs, sizes = inputs_of(model, rng), open_sizes(model)
        try:
            whole = run_whole(path, inputs)
        except Exception as error:  # Random contents cannot suit every model, for example as indices.
            print(f"{name}: ONNX Runtime does not run the whole model with random weights: {str(error)[:120]}")
            tally["not runnable"] += 1
            continue
        count = 2 + number % 3
        row, equal = [], []
        for method, devices in (("contiguous", count), ("random", 3)):
            parts = folder / f"{name}-{method}"
            try:
                if method == "random":
                    emplace.place_at_random(path, machines[devices], folder / "p.json", rng, sizes)
                else:
                    emplace.place(path, machines[devices], method, folder / "p.json", sizes)
                emplace.export(folder / "p.json", path, "submodels", parts, sizes)
                chained, manifest = run_chain(parts, inputs)
            except Exception as error:
                report.fail(f"{name}, {method}: {str(error)[:300]}")
                row += ["-", "failed"]
                continue
            equal.append(same_bits(whole, chained))
            if not equal[-1]:
                report.fail(f"{name}, {method}: other bits, by {largest_difference(whole, chained):.2g}")
            if method == "contiguous":
                used = {part["device"] for part in manifest["parts"]}
                tally["equal"] += equal[-1]
                tally["few"] += equal[-1] and 2 <= len(manifest["parts"]) <= 4
                plain = run_whole(path, inputs, True)
                split, _ = run_chain(parts, inputs, True)
                optimised = "equal" if same_bits(plain, split) else f"{largest_difference(plain, split):.1e}"
                tally["optimised"] += optimised == "equal"
                row += [str(len(used))]
            else:
                tally["random equal"] += equal[-1]
            row += [str(len(manifest["parts"])), "equal" if equal[-1] else "DIFFER"]
            if also_onnx:
                for part in manifest["parts"]:
                    onnx.checker.check_model(str(parts / part["file"]))
                    tally["checked parts"] += 1
        if not is_finite(whole):
            report.fail(f"{name}: outputs are not finite, so their comparison proves little")
        tally["models"] += 1
        report.add(f"| {name} | {len(model.graph.node)} | " + " | ".join(row) + f" | {optimised} |")
        if also_onnx:
            # Beside the original, whose data it refers to.
            exported = folder / f"{name}.placed.onnx"
            emplace.export(folder / "p.json", path, "onnx", exported, sizes)
            onnx.checker.check_model(str(exported))
            placed = onnx.load(exported, load_external_data=False)
            configured = (len(placed.configuration) == 1 and
                          all(len(node.device_configurations) == 1 for node in placed.graph.node))
            if not configured or not same_bits(whole, run_whole(exported, inputs)):
                report.fail(f"{name}: --to onnx changes the model")
            tally["onnx"] += 1
        for file in folder.glob(f"{name}*"):
            subprocess.run(["rm", "-r", str(file)], check=True)
    report.add("")
    report.add(f"{tally['equal']} of {tally['models']} models have equal bits on contiguous parts, {tally['few']} of them "
               f"on 2 to 4 parts; {tally['random equal']} of")
    report.add(f"{tally['models']} on the parts of a random placement. With optimisations {tally['optimised']} are equal. "
               f"Not run: {tally['too large']} with more than")
    report.add(f"{LARGEST_WEIGHTS >> 20} MiB of weights, and {tally['not runnable']} that ONNX Runtime does not run with "
               "random contents.")
    report.add("")
    if also_onnx:
        report.add(f"`--to onnx` of {tally['onnx']} models: the checker of onnx accepts the device configurations, and "
                   "ONNX Runtime computes")
        report.add(f"the bits of the original. The checker accepts all {tally['checked parts']} sub-models.")
        report.add("")
    if tally["few"] < min(20, len(models) - 2):
        report.fail(f"only {tally['few']} models are equal on 2 to 4 parts")


# ---- OpenVINO --------------------------------------------------------------------------------------------------------

def check_openvino(emplace, folder, report, models):
    import openvino
    # A plugin must have its own name in that of the device.
    stand_in = "GPU_AS_CPU"
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    core.register_plugin(str(pathlib.Path(openvino.__file__).parent / "libs" / "libopenvino_intel_cpu_plugin.so"), stand_in)
    devices = folder / "openvino.toml"
    devices_file(devices, ["cpu:0", "gpu:0"])
    rng = np.random.default_rng(11)
    report.add("## Affinities in OpenVINO")
    report.add("")
    report.add("| model | ops of the map | found in OpenVINO's model | on CPU | on GPU.0 | outputs differ by |")
    report.add("|---|--:|--:|--:|--:|--:|")
    passed = 0
    for name in models:
        path = with_weights(name, folder, rng)
        model = onnx.load(path, load_external_data=False)
        emplace.place(path, devices, "contiguous", folder / "p.json", open_sizes(model))
        emplace.export(folder / "p.json", path, "openvino", folder / "affinity.json", open_sizes(model))
        affinity = json.loads((folder / "affinity.json").read_text())
        read = core.read_model(str(path))
        inputs = inputs_of(model, rng)
        placed = collections.Counter()
        found = set()
        device_of = {}
        # OpenVINO makes several ops of one node; those that the map does not name are where they are read, and so
        # are constants.
        for op in reversed(read.get_ordered_ops()):
            called = op.get_friendly_name()
            readers = [i.get_node().get_friendly_name() for o in op.outputs() for i in o.get_target_inputs()]
            device = affinity.get(called) if op.get_type_name() != "Constant" else None
            found.update({called} & set(affinity))
            if device is None:
                device = next((device_of[reader] for reader in readers if reader in device_of), "CPU")
            device_of[called] = device
            op.rt_info["affinity"] = stand_in if device.startswith("GPU") else device
            placed[device] += 1
        try:
            compiled = core.compile_model(read, f"HETERO:{stand_in},CPU", precision)
            plain = core.compile_model(core.read_model(str(path)), "CPU", precision)
            ours, theirs = compiled(inputs), plain(inputs)
            ran = sorted(compiled.get_property("EXECUTION_DEVICES"))
            worst = largest_difference({k: theirs[k] for k in range(len(plain.outputs))},
                                       {k: ours[k] for k in range(len(compiled.outputs))})
        except Exception as error:
            report.fail(f"openvino, {name}: {str(error)[:300]}")
            continue
        nodes = {n.name for n in model.graph.node}
        report.add(f"| {name} | {len(affinity)} | {len(found)} | {placed['CPU']} | {placed['GPU.0']} | {worst:.1e} |")
        if worst > 1e-4 or ran != ["CPU", stand_in] or not found & nodes:
            report.fail(f"openvino, {name}: differs by {worst:.2g}, runs on {ran}, {dict(placed)}")
        else:
            passed += 1
    report.add("")
    report.add(f"{passed} of {len(models)} models run on both devices of HETERO with the affinities of the export.")
    report.add("")


# ---- TensorFlow ------------------------------------------------------------------------------------------------------

def tensorflow_graphs(tf):
    """By name: a graph, values of its placeholders, what to fetch, and what to run first."""
    v1 = tf.compat.v1
    rng = np.random.default_rng(5)

    def normal(*shape):
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)

    def perceptron():
        x = v1.placeholder(tf.float32, [16, 32], "x")
        for k in range(4):
            x = tf.nn.relu(tf.matmul(x, tf.constant(normal(32, 32), name=f"w{k}")) + tf.constant(normal(32)))
        return {"x:0": normal(16, 32)}, [tf.identity(x, "y")], None

    def convolutions():
        x = v1.placeholder(tf.float32, [2, 32, 32, 3], "x")
        for k, (before, after) in enumerate(((3, 8), (8, 16), (16, 16))):
            x = tf.nn.relu(tf.nn.conv2d(x, normal(3, 3, before, after), 1, "SAME", name=f"conv{k}"))
            x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        return {"x:0": normal(2, 32, 32, 3)}, [tf.reduce_mean(x, [1, 2], name="y")], None

    def attention():
        x = v1.placeholder(tf.float32, [2, 10, 16], "x")
        q, k, v = (tf.einsum("bti,io->bto", x, normal(16, 16)) for _ in range(3))
        mixed = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
        return {"x:0": normal(2, 10, 16)}, [tf.identity(mixed + x, "y")], None

    def while_loop():
        x = v1.placeholder(tf.float32, [4, 8], "x")
        w = tf.constant(normal(8, 8))
        _, y = v1.while_loop(lambda i, _: i < 5, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w))), [tf.constant(0), x])
        return {"x:0": normal(4, 8)}, [tf.identity(y, "y")], None

    def training():
        x = v1.placeholder(tf.float32, [8, 12], "x")
        w1 = v1.get_variable("w1", initializer=normal(12, 20))
        w2 = v1.get_variable("w2", initializer=normal(20, 1))
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2)), name="loss")
        step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with tf.control_dependencies([step]):
            after = [tf.identity(w1.read_value(), "after1"), tf.identity(w2.read_value(), "after2")]
        return {"x:0": normal(8, 12)}, [loss, *after], v1.global_variables_initializer()

    for make in (perceptron, convolutions, attention, while_loop, training):
        graph = v1.Graph()
        with graph.as_default(), v1.variable_scope("", use_resource=True):
            feeds, fetches, initial = make()
        yield (make.__name__, graph.as_graph_def(add_shapes=True), feeds, [f.name for f in fetches],
               initial and initial.name)


def run_tensorflow(tf, graph_def, feeds, fetches, initial):
    """Three runs in one session, and the nodes of TensorFlow's partitions by device."""
    v1 = tf.compat.v1
    graph = v1.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    config = v1.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=False)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    ran, values = collections.Counter(), []
    with v1.Session(graph=graph, config=config) as session:
        if initial:
            session.run(initial)
        for _ in range(3):
            metadata = v1.RunMetadata()
            values += session.run(fetches, feeds, v1.RunOptions(output_partition_graphs=True), metadata)
        for partition in metadata.partition_graphs:
            for node in partition.node:
                if not node.op.startswith(("_Send", "_Recv", "NoOp")):
                    ran[node.device.rsplit("/", 1)[-1].replace("device:", "")] += 1
    return {k: v for k, v in enumerate(values)}, ran


def check_tensorflow(emplace, folder, report):
    import tensorflow as tf
    devices = folder / "tensorflow.toml"
    devices_file(devices, ["cpu:0", "cpu:1", "cpu:2"])
    report.add("## Devices in TensorFlow")
    report.add("")
    report.add("| graph | nodes | nodes that ran on CPU:0, CPU:1, CPU:2 | outputs of three runs |")
    report.add("|---|--:|---|---|")
    rng = np.random.default_rng(3)
    passed = count = 0
    for name, graph_def, feeds, fetches, initial in tensorflow_graphs(tf):
        count += 1
        path = folder / f"{name}.pb"
        path.write_bytes(graph_def.SerializeToString())
        emplace.place_at_random(path, devices, folder / "p.json", rng)
        emplace.export(folder / "p.json", path, "tensorflow", folder / "devices.json")
        named = json.loads((folder / "devices.json").read_text())
        plain, _ = run_tensorflow(tf, graph_def, feeds, fetches, initial)
        missing = [node.name for node in graph_def.node if node.name not in named]
        for node in graph_def.node:
            node.device = named.get(node.name, "")
        placed, ran = run_tensorflow(tf, graph_def, feeds, fetches, initial)
        equal = same_bits({str(k): np.asarray(v) for k, v in plain.items()},
                          {str(k): np.asarray(v) for k, v in placed.items()})
        counts = ", ".join(str(ran[f"CPU:{k}"]) for k in range(3))
        report.add(f"| {name} | {len(graph_def.node)} | {counts} | {'equal bits' if equal else 'DIFFER'} |")
        if not equal or missing or len(ran) < 2:
            report.fail(f"tensorflow, {name}: equal {equal}, nodes without a device {missing[:3]}, ran {dict(ran)}")
        else:
            passed += 1
    report.add("")
    report.add(f"{passed} of {count} graphs run on the exported devices without soft placement, with equal bits.")
    report.add("")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--log", help="file of the report, as Markdown")
    parser.add_argument("--models", type=int, default=1000, help="number of ONNX models (default: all)")
    parser.add_argument("--only", default=",".join(KINDS), help="checks to run, separated by commas")
    parser.add_argument("--name", action="append", help="only this ONNX model; may be repeated")
    options = parser.parse_args()
    kinds = options.only.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--only: expected some of {', '.join(KINDS)}")
    emplace, report, start = Emplace(os.path.abspath(options.program)), Report(), time.monotonic()
    models = sorted(f.name.removesuffix(".onnx.zst") for f in FIXTURES.glob("*.onnx.zst"))[:options.models]
    if options.name:
        models = options.name
    versions = [f"onnx {onnx.__version__}", f"ONNX Runtime {onnxruntime.__version__}"]
    if "openvino" in kinds:
        import openvino
        versions.append(f"OpenVINO {openvino.__version__.split('-')[0]}")
    if "tensorflow" in kinds:
        import tensorflow
        versions.append(f"TensorFlow {tensorflow.__version__}")
    report.add("# Exports in the runtimes that they are for")
    report.add("")
    report.add("Written by `scripts/verify_exports.sh --log docs/results/exports.md`; `tests/exports/verify.py` describes the "
               "checks.")
    report.add(", ".join(versions) + f"; Python {platform.python_version()}, {platform.machine()}, CPU only.")
    report.add("")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if "submodels" in kinds or "onnx" in kinds:
            check_submodels(emplace, folder, report, models, "onnx" in kinds)
        if "openvino" in kinds:
            few = options.name or [n for n in ("bert", "cond_if", "gpt2", "legacy_lstm", "mobilenet_v3_large", "resnet18",
                                               "shufflenet_v2_x0_5", "torch_gru", "vit_small") if n in models]
            check_openvino(emplace, folder, report, few)
        if "tensorflow" in kinds:
            check_tensorflow(emplace, folder, report)
    report.add("All checks passed." if not report.failed else "Failed: " + "; ".join(report.failed))
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.log:
        pathlib.Path(options.log).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
