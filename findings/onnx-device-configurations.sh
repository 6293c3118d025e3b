#!/usr/bin/env bash
# Library: onnx 1.23.2 (IR version 11 and later: device_configurations of nodes).
# Guess: the checker refuses a node that names a configuration, a device or a tensor which the model does not have; tools
#   of the package that rename or merge keep the annotations in step.
# Behaviour: the checker reads none of it. compose.add_prefix renames the tensors, but not in the sharding specs;
#   merge_models keeps the annotations of nodes and drops the configurations that they name; the inliner drops both the
#   annotations and the metadata of the call. The checker accepts each result.
# Output seen: as above, with full_check=True.
# Source: https://github.com/onnx/onnx/blob/main/docs/docsgen/source/technical/ (sharding) states what the fields mean; that no
#   tool looks at them was found by running.
# Consequence: a placement in an ONNX file must be checked where it is read, and written after the last tool has run.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" onnx==1.23.2 numpy==2.4.6
python - <<'PYTHON'
import onnx
import onnx.compose
import onnx.inliner
from finding import seen
from onnx import TensorProto, helper


def annotate(node, device):
    entry = node.metadata_props.add()
    entry.key, entry.value = "device", f"gpu:{device}"
    configuration = node.device_configurations.add()
    configuration.configuration_id = "two"
    spec = configuration.sharding_spec.add()
    spec.tensor_name = node.output[0]
    spec.device.append(device)


def model_of(nodes, functions=()):
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in ("x", "y")]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    model = helper.make_model(helper.make_graph(nodes, "graph", *ends), opset_imports=opsets, ir_version=11, functions=list(functions))
    configuration = model.configuration.add()
    configuration.name, configuration.num_devices = "two", 2
    onnx.checker.check_model(model, full_check=True)
    return model


def chain():
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="first"), helper.make_node("Neg", ["a"], ["y"], name="second")]
    for device, node in enumerate(nodes):
        annotate(node, device)
    return model_of(nodes)


def is_accepted(model):
    onnx.checker.check_model(model, full_check=True)
    return True


wrong = chain()
configuration = wrong.graph.node[0].device_configurations[0]
configuration.configuration_id = "no such configuration"
configuration.sharding_spec[0].tensor_name = "no such tensor"
configuration.sharding_spec[0].device[0] = 77
seen("the checker accepts names that nothing has", is_accepted(wrong), True)

renamed = onnx.compose.add_prefix(chain(), "stage/")
node = renamed.graph.node[0]
seen("output and its sharding spec after add_prefix", (node.output[0], node.device_configurations[0].sharding_spec[0].tensor_name), ("stage/a", "a"))
seen("the checker accepts it", is_accepted(renamed), True)

merged = onnx.compose.merge_models(chain(), renamed, io_map=[("y", "stage/x")])
annotated = sum(len(node.device_configurations) for node in merged.graph.node)
seen("annotations and configurations after merge_models", (annotated, len(merged.configuration)), (4, 0))
seen("the checker accepts it", is_accepted(merged), True)

body = helper.make_function("local", "Block", ["x"], ["y"], list(chain().graph.node), [helper.make_opsetid("", 20)])
for node in body.node:
    node.ClearField("metadata_props"), node.ClearField("device_configurations")
call = helper.make_node("Block", ["x"], ["y"], domain="local", name="call")
annotate(call, 1)
flat = onnx.inliner.inline_local_functions(model_of([call], [body]))
kept = [(len(node.metadata_props), len(node.device_configurations)) for node in flat.graph.node]
seen("metadata and annotations of the call's nodes after the inliner", kept, [(0, 0), (0, 0)])
PYTHON
