#!/usr/bin/env bash
# Library: nncf 3.4.0 with onnx 1.23.2.
# Guess: weights of an ONNX model that are compressed to 4 bits are read through DequantizeLinear, and the nodes keep their names.
# Behaviour: so from opset 21 on. Below it the products become MatMulNBits of com.microsoft under other names, and the model
#   does not import that domain: the checker of onnx refuses it, ONNX Runtime takes it.
# Output seen: opset 20: MatMulNBits "…_compressed_matmul" twice; opset 21: DequantizeLinear and MatMul with their
#   names.
# Source: found by running; https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md has MatMulNBits.
# Consequence: rules and maps by node names fit one of the two, and work, bytes and kernels differ with the number of the
#   opset. emplace knows both forms; convert the model to opset 21 first to keep the names.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" nncf==3.4.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import contextlib
import io
import logging

import nncf
import numpy as np
import onnx
from finding import seen
from onnx import TensorProto, helper, numpy_helper

nncf.set_log_level(logging.ERROR)
numbers = np.random.default_rng(0)


def compressed(opset):
    weights = [numpy_helper.from_array(numbers.standard_normal((256, 256)).astype(np.float32), f"weight{i}") for i in range(2)]
    nodes = [helper.make_node("MatMul", ["x", "weight0"], ["h"], name="first"), helper.make_node("MatMul", ["h", "weight1"], ["y"], name="second")]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 256])] for name in ("x", "y")]
    model = helper.make_model(helper.make_graph(nodes, "graph", *ends, weights), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    with contextlib.redirect_stdout(io.StringIO()):
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT4_SYM, group_size=32, all_layers=True)


def is_accepted(model):
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


packed, plain = compressed(20), compressed(21)
seen("opset 20: ops", [node.op_type for node in packed.graph.node], ["MatMulNBits"] * 2)
seen("opset 20: names", [node.name for node in packed.graph.node], ["first_compressed_matmul", "second_compressed_matmul"])
seen("opset 20: the checker accepts it", is_accepted(packed), False)
seen("opset 21: ops", [node.op_type for node in plain.graph.node], ["DequantizeLinear", "MatMul"] * 2)
seen("opset 21: names of the products", [node.name for node in plain.graph.node if node.op_type == "MatMul"], ["first", "second"])
seen("opset 21: the checker accepts it", is_accepted(plain), True)
PYTHON
