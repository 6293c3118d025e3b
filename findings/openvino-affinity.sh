#!/usr/bin/env bash
# Library: openvino 2026.4.1.
# Guess: the affinity of an op (rt_info["affinity"], which HETERO reads) is a part of a saved model.
# Behaviour: save_model and serialize drop it without a word. A clone in the same process keeps it.
# Output seen: six ops with an affinity; none in the file of either function, none after reading it.
# Source: https://docs.openvino.ai, "Heterogeneous Execution", sets affinities on a model in memory and compiles it at once.
# Consequence: a placement for HETERO cannot be shipped as a file of OpenVINO; it is a list beside the model that a program
#   applies before it compiles, as the one that emplace exports.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" onnx==1.23.2 openvino==2026.4.1 numpy==2.4.6
python - <<'PYTHON'
import openvino
from finding import seen
from onnx import TensorProto, helper, save

nodes = [helper.make_node("Relu", ["x"], ["a"], name="first"), helper.make_node("Neg", ["a"], ["y"], name="second")]
ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in ("x", "y")]
save(helper.make_model(helper.make_graph(nodes, "graph", *ends), opset_imports=[helper.make_opsetid("", 20)], ir_version=10), "model.onnx")
core = openvino.Core()
model = core.read_model("model.onnx")
for op in model.get_ordered_ops():
    op.get_rt_info()["affinity"] = "CPU"


def with_affinity(model):
    return sum("affinity" in op.get_rt_info() for op in model.get_ordered_ops())


ops = len(model.get_ordered_ops())
seen("ops with an affinity, in memory and cloned", (with_affinity(model), with_affinity(model.clone())), (ops, ops))
openvino.save_model(model, "saved.xml")
openvino.serialize(model, "serialized.xml")
for file in ("saved.xml", "serialized.xml"):
    seen(f"{file}: mentions, and ops with an affinity", (open(file).read().count("affinity"), with_affinity(core.read_model(file))), (0, 0))
PYTHON
