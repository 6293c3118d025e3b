#pragma once
/// Types of all values of an ONNX graph: what the file says, else what follows from the inputs.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/formats/onnx/onnx_infer.h"
#include "graph/formats/onnx/onnx_symbols.h"
#include "graph/op_graph.h"

namespace onnx {
class GraphProto;
class NodeProto;
class TypeProto;
}  // namespace onnx

namespace emplace::onnx_io {

/// What the nodes in the bodies of an `If`, `Loop` or `Scan` come to.
struct BodyWork {
  std::int64_t flops = 0;                       ///< Of one step: all iterations, the costlier branch.
  std::optional<std::int64_t> iterations;       ///< Of a loop, where the file says it; else one is counted.
  bool unknown_work = false;                    ///< An op in it has no rule.
  std::vector<std::string> reads;               ///< Values of the graph around it, each once.
  std::vector<const onnx::GraphProto*> bodies;  ///< Those in these bodies too.
};

/// Types one graph. Thread: one.
class Types {
 public:
  /// @param outer  types of the graph around a body, or null.
  Types(Symbols& symbols, int opset, std::string_view where, const Types* outer = nullptr)
      : symbols_{symbols}, opset_{opset}, where_{where}, outer_{outer} {}

  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  /// Initializers, inputs that have no value yet, and nodes in the file's order.
  /// Errors (kInvalid): a node whose inputs do not go together, or whose result the file types otherwise.
  Result<Unit> infer(const onnx::GraphProto& graph);

  /// Of this graph or one around it; null if nothing is known.
  const Value* find(const std::string& name) const;
  /// Of a control-flow node that was typed; null for others.
  const BodyWork* body_of(const onnx::NodeProto& node) const;

 private:
  Result<Unit> infer(const onnx::NodeProto& node);
  Result<Unit> keep(const onnx::NodeProto& node, std::vector<Value>& outputs);
  Result<Unit> infer_bodies(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                            std::vector<Value>& outputs);
  Result<Unit> infer_body(const onnx::GraphProto& body, const std::vector<Value>& arguments, BodyWork& work,
                          std::vector<Value>& results);
  std::optional<Value> declared(const std::string& name) const;

  Symbols& symbols_;
  const int opset_;
  const std::string_view where_;
  const Types* const outer_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string_view, const onnx::TypeProto*> declared_;
  std::map<const onnx::NodeProto*, BodyWork> bodies_;
};

/// A value as an op's output; nothing without shape or element type. Elements of less than a byte are packed:
/// the last dimension shrinks. A string counts as a byte.
std::optional<TensorSpec> spec_of(const Value& value);
/// True for element types that arithmetic in real numbers works on.
bool is_floating(int element);

/// Attributes that decide a cost, as a JSON object.
nlohmann::json attributes_of(const onnx::NodeProto& node);
/// Work of one node, bodies aside; nothing for an op kind without a rule. `attributes` are the node's.
std::optional<std::int64_t> node_flops(const onnx::NodeProto& node, const nlohmann::json& attributes,
                                       const Types& types);
/// True if the first output shows the first input's data in another shape.
bool is_view(const onnx::NodeProto& node);

}  // namespace emplace::onnx_io
