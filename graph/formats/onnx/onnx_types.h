#pragma once
/// Types of all values of an ONNX graph: as declared in the file, else inferred from the inputs.

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

/// Totals over the nodes in the bodies of an `If`, `Loop` or `Scan`.
struct BodyWork {
  std::int64_t flops = 0;  ///< Work of one step: all iterations, the most expensive branch.
  /// Trip count of a loop if the file contains it; otherwise 1 is assumed.
  std::optional<std::int64_t> iterations;
  bool unknown_work = false;                    ///< Whether an op in it has no flops rule.
  std::vector<std::string> reads;               ///< Outer values that the bodies read, without duplicates.
  std::vector<const onnx::GraphProto*> bodies;  ///< All bodies, including nested ones.
};

/// Infers the types of one graph. Thread: one.
class Types {
 public:
  /// @param outer  types of the enclosing graph, or null.
  Types(Symbols& symbols, int opset, std::string_view where, const Types* outer = nullptr)
      : symbols_{symbols}, opset_{opset}, where_{where}, outer_{outer} {}

  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  /// Sets the contents of an initializer of whole numbers whose data is external.
  void set_contents(const std::string& name, std::vector<std::int64_t> values) {
    external_[name] = std::move(values);
  }
  /// Types initializers, inputs without a value, and nodes in file order. Errors (kInvalid): a node with
  /// incompatible inputs, or whose inferred type contradicts the file.
  Result<Unit> infer(const onnx::GraphProto& graph);

  /// Looks up a value in this graph or an enclosing one; null if unknown.
  const Value* find(const std::string& name) const;
  /// Formats the sizes that would complete the type of a value as an option: "--shape at.1=…".
  std::string missing_sizes(const std::string& name) const;
  /// The bodies of a typed control-flow node; null for other nodes.
  const BodyWork* body_of(const onnx::NodeProto& node) const;

 private:
  Result<Unit> infer(const onnx::NodeProto& node);
  void size_bounds(const onnx::NodeProto& node, const Inference& op, std::vector<Value>& outputs);
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
  std::unordered_map<std::string, std::vector<std::int64_t>> external_;
  std::unordered_map<std::string_view, const onnx::TypeProto*> declared_;
  std::map<const onnx::NodeProto*, BodyWork> bodies_;
};

/// Converts a value to an output spec; nothing without shape or element type. Elements of less than a byte
/// are packed: the last dimension shrinks. A string counts as one byte.
std::optional<TensorSpec> spec_of(const Value& value);
/// Adds the values of enclosing graphs that a body, or a body in it, reads; without duplicates.
void find_reads(const onnx::GraphProto& body, std::vector<std::string>& reads);
/// Returns whether the element type is floating-point.
bool is_floating_element(int element);

/// The attributes that affect the cost, as a JSON object.
nlohmann::json attributes_of(const onnx::NodeProto& node);
/// Work of one node without its bodies; nothing for an op kind without a rule. `attributes` are the node's.
std::optional<std::int64_t> node_flops(const onnx::NodeProto& node, const nlohmann::json& attributes,
                                       const Types& types);
/// Returns whether the first output is the first input's data in another shape.
bool is_view(const onnx::NodeProto& node);

}  // namespace emplace::onnx_io
