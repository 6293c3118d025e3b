#!/usr/bin/env bash
# Library: onnxruntime 1.32.0.
# Guess: the model that a session saves (optimized_model_filepath) keeps metadata and device configurations of the nodes that
#   no optimization touched.
# Behaviour: they are kept where nothing in the graph changed. Where one node anywhere was removed, all nodes lose both, those
#   that were not touched as well. The configurations themselves stay in the model.
# Output seen: MatMul, Sigmoid, MatMul, Sigmoid with metadata: all kept by ORT_ENABLE_ALL; with one Identity before
#   them, which the session removes, none kept from ORT_ENABLE_BASIC on.
# Source: found by running; https://github.com/microsoft/onnxscript/issues/2637 is the same loss in another optimizer.
# Consequence: a placement must be written after ONNX Runtime has optimized, and matched by the names of the nodes, which it
#   keeps.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from finding import seen
from onnx import TensorProto, helper, numpy_helper


def model(with_identity):
    nodes, weights, last = [], [], "x"
    if with_identity:
        nodes.append(helper.make_node("Identity", ["x"], ["same"], name="identity"))
        last = "same"
    for i in range(2):
        weights.append(numpy_helper.from_array(np.ones((16, 16), np.float32), f"weight{i}"))
        for op, inputs, output in (("MatMul", [last, f"weight{i}"], f"product{i}"), ("Sigmoid", [f"product{i}"], f"y{i}")):
            node = helper.make_node(op, inputs, [output], name=f"{op}{i}")
            entry = node.metadata_props.add()
            entry.key, entry.value = "device", f"gpu:{i}"
            node.device_configurations.add().configuration_id = "two"
            nodes.append(node)
        last = f"y{i}"
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16])] for name in ("x", last)]
    made = helper.make_model(helper.make_graph(nodes, "graph", *ends, weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=11)
    configuration = made.configuration.add()
    configuration.name, configuration.num_devices = "two", 2
    onnx.checker.check_model(made, full_check=True)
    return made


def saved(made, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath, options.log_severity_level = "saved.onnx", 3
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [(node.name, len(node.metadata_props), len(node.device_configurations)) for node in onnx.load("saved.onnx").graph.node]


names = ["MatMul0", "Sigmoid0", "MatMul1", "Sigmoid1"]
for with_identity, level, count in ((False, "ORT_ENABLE_ALL", 1), (True, "ORT_ENABLE_BASIC", 0), (True, "ORT_ENABLE_ALL", 0)):
    wanted = [(name, count, count) for name in names]
    seen(f"identity {with_identity}, {level}: name, metadata, configurations", saved(model(with_identity), level), wanted)
PYTHON
