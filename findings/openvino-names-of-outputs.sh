#!/usr/bin/env bash
# Library: openvino 2026.4.1.
# Guess: ops of a model that is read from ONNX have the names of its nodes.
# Behaviour: all but those that make an output of the graph: these have the name of the output. Nodes that share a name get
#   numbers.
# Output seen: nodes first, second, last with the output y: first, second, y. Three nodes named same: same, same_1,
#   and y.
# Source: found by running.
# Consequence: a placement by names of nodes misses the last layer of every model: query_model and affinities know it as
#   the output, and a list for OpenVINO must call it so.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" onnx==1.23.2 openvino==2026.4.1 numpy==2.4.6
python - <<'PYTHON'
import openvino
from finding import seen
from onnx import TensorProto, checker, helper, save


def names(first, second, last):
    chain = (("Relu", "x", "a", first), ("Neg", "a", "b", second), ("Sigmoid", "b", "y", last))
    nodes = [helper.make_node(op, [source], [target], name=name) for op, source, target, name in chain]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in ("x", "y")]
    model = helper.make_model(helper.make_graph(nodes, "graph", *ends), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    checker.check_model(model, full_check=True)
    save(model, "model.onnx")
    core = openvino.Core()
    read = core.read_model("model.onnx")
    known = core.query_model(read, "CPU")
    ops = [op.get_friendly_name() for op in read.get_ordered_ops() if op.get_type_name() in ("Relu", "Negative", "Sigmoid")]
    return ops, last in known and last != "y"


seen("names of three nodes, and whether query_model knows the last", names("first", "second", "last"), (["first", "second", "y"], False))
seen("names of three nodes with one name", names("same", "same", "same")[0], ["same", "same_1", "y"])
PYTHON
