#pragma once
/// ONNX models under construction, for tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "graph/formats/graph_file.h"

namespace emplace {

/// A model under construction: input "x" [2, 8] and whatever a test adds.
class Model {
 public:
  Model() {
    model_.set_ir_version(7);
    model_.add_opset_import()->set_version(13);
    model_.mutable_graph()->set_name("made");
    input("x", {2, 8});
  }
  onnx::ModelProto& proto() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  onnx::ValueInfoProto& input(const std::string& name, const std::vector<std::int64_t>& shape) {
    auto& value = *graph().add_input();
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape();
    for (const std::int64_t dim : shape) type.mutable_shape()->add_dim()->set_dim_value(dim);
    return value;
  }
  onnx::TensorProto& initializer(const std::string& name, const std::vector<std::int64_t>& dims,
                                 int type = onnx::TensorProto::FLOAT) {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    return tensor;
  }
  onnx::NodeProto& node(const std::string& type, const std::string& name,
                        const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    auto& node = *graph().add_node();
    node.set_op_type(type);
    node.set_name(name);
    for (const auto& input : inputs) node.add_input(input);
    for (const auto& output : outputs) node.add_output(output);
    return node;
  }
  Result<OpGraph> read(const OpenDims& dims = {}) const {
    const std::string text = model_.SerializeAsString();
    return parse_graph(std::as_bytes(std::span{text.data(), text.size()}), "m.onnx", {.dims = dims});
  }
  std::string error(const OpenDims& dims = {}) const {
    const auto graph = read(dims);
    if (graph) return "accepted";
    EXPECT_EQ(graph.error().context.find('\n'), std::string::npos);
    EXPECT_THAT(graph.error().context, ::testing::StartsWith("m.onnx: "));
    return graph.error().context;
  }

 private:
  onnx::ModelProto model_;
};

inline OpId find(const OpGraph& graph, std::string_view name) {
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.name(OpId{i}) == name) return OpId{i};
  }
  return kNoOp;
}

inline std::vector<std::int64_t> shape(const OpGraph& graph, std::string_view name) {
  const auto dims = graph.shape(graph.first_output(find(graph, name)));
  return {dims.begin(), dims.end()};
}

}  // namespace emplace
