#!/usr/bin/env bash
# Library: onnx-ir 1.1.0.
# Guess: the pass that merges equal expressions keeps two nodes apart that stand on two devices.
# Behaviour: it compares op, inputs and attributes only. Of two equal nodes the first stays, with its device; metadata and
#   device configuration of the other are gone.
# Output seen: two Relu of one tensor, on gpu:0 and gpu:1: one Relu on gpu:0 is left.
# Source: https://github.com/onnx/ir-py, passes/common/common_subexpression_elimination.py; found by running.
# Consequence: a branch that was computed twice on purpose, so that no tensor crosses a link, is computed once, and its
#   readers on the other device wait for a copy. Simplify first, then place. emplace places the graph as it is in the file.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" onnx==1.23.2 onnx-ir==1.1.0 numpy==2.4.6
python - <<'PYTHON'
import onnx
import onnx_ir
from finding import seen
from onnx import TensorProto, helper
from onnx_ir.passes.common import CommonSubexpressionEliminationPass

nodes = [helper.make_node("Relu", ["x"], [output], name=f"relu_{output}") for output in ("a", "b")]
for device, node in enumerate(nodes):
    entry = node.metadata_props.add()
    entry.key, entry.value = "device", f"gpu:{device}"
    node.device_configurations.add().configuration_id = f"gpu:{device}"
nodes.append(helper.make_node("Add", ["a", "b"], ["y"], name="add"))
ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in ("x", "y")]
model = helper.make_model(helper.make_graph(nodes, "graph", *ends), opset_imports=[helper.make_opsetid("", 20)], ir_version=11)
for device in range(2):
    configuration = model.configuration.add()
    configuration.name, configuration.num_devices = f"gpu:{device}", 1
onnx.checker.check_model(model, full_check=True)


def devices(model):
    return [[entry.value for entry in node.metadata_props] + [c.configuration_id for c in node.device_configurations] for node in model.graph.node]


both = [["gpu:0"] * 2, ["gpu:1"] * 2, []]
seen("devices before", devices(model), both)
seen("devices after reading and writing", devices(onnx_ir.to_proto(onnx_ir.from_proto(model))), both)
merged = CommonSubexpressionEliminationPass()(onnx_ir.from_proto(model)).model
seen("devices after the pass", devices(onnx_ir.to_proto(merged)), [both[0], []])
PYTHON
