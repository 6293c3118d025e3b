#!/usr/bin/env bash
# Library: onnxruntime 1.32.0.
# Guess: the memory statistics of nodes that a session collects (session.collect_node_memory_stats_to_file, made for
#   partitioning by memory) contain the weights.
# Behaviour: weights that are packed for the CPU's kernels when the session starts are counted nowhere; without packing they
#   are part of a column of inputs, and the column of initializers stays 0.
# Output seen: two MatMul with 4 MiB of weights each: 16,384 bytes of inputs, 0 of initializers; with
#   session.disable_prepacking=1 8,404,992 of inputs, 0 of initializers.
# Source: the key is described in onnxruntime_session_options_config_keys.h of https://github.com/microsoft/onnxruntime; the
#   numbers were found by running.
# Consequence: a partition by these statistics takes a network for 500 times smaller than it is; collect them without packing.
#   emplace takes the bytes of weights from the model.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python - <<'PYTHON'
import csv

import numpy as np
import onnxruntime
from finding import seen
from onnx import TensorProto, helper, numpy_helper

weights = [numpy_helper.from_array(np.ones((1024, 1024), np.float32), f"weight{i}") for i in range(2)]
nodes = [helper.make_node("MatMul", ["x", "weight0"], ["h"], name="first"), helper.make_node("MatMul", ["h", "weight1"], ["y"], name="second")]
ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 1024])] for name in ("x", "y")]
model = helper.make_model(helper.make_graph(nodes, "graph", *ends, weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
for packed, inputs in ((True, 16_384), (False, 16_384 + 2 * 4 * 1024 * 1024)):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_prepacking", "0" if packed else "1")
    options.add_session_config_entry("session.collect_node_memory_stats_to_file", f"packed_{packed}.csv")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.zeros((4, 1024), np.float32)})
    del session
    with open(f"packed_{packed}.csv") as file:
        rows = list(csv.DictReader(file))
    counted = [sum(int(row[column]) for row in rows) for column in ("input_sizes", "initializers_sizes")]
    seen(f"packed {packed}: bytes of inputs and initializers of both nodes", counted, [inputs, 0])
PYTHON
