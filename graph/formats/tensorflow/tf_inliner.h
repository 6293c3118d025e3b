#pragma once
/// The working state of inline_functions: the result graph, extended body by body.

#include <fmt/core.h>
#include <tf_graphdef.pb.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/formats/tensorflow/tf_inline.h"

namespace emplace::tf {

using Attributes = google::protobuf::RepeatedPtrField<NodeDef::Attr>;

/// The attribute `name`, or null.
const AttrValue* find_in(const Attributes& attributes, std::string_view name);

/// An output of a node of the result graph.
struct TensorRef {
  std::string node;
  std::uint32_t output = 0;

  /// Formats the reference as an input: "node" or "node:2".
  std::string text() const { return output == 0 ? node : fmt::format("{}:{}", node, output); }
};

/// A parsed input: "^node", "node", "node:2", "node:output" or "node:output:2"; or a function argument "name"
/// or "name:2".
struct InputText {
  bool ok = true;
  bool control = false, has_number = false;
  std::string_view node, output;
  std::uint32_t number = 0;
};
InputText parse_input(std::string_view text);

/// One node with its inputs resolved to nodes of the result graph.
struct CallSite {
  const NodeDef& node;
  std::string name;  ///< Name in the result graph.
  std::vector<TensorRef> inputs;
  std::vector<std::string> waits_for;  ///< Control inputs: "^node".
  Attributes attributes;               ///< The node's attributes, with placeholders replaced.
};

/// Inlines one graph. Thread: one. Single use.
class Inliner {
 public:
  Inliner(const GraphDef& graph, std::string_view where);
  /// Implements inline_functions.
  Result<Inlined> run(const std::function<bool(int)>& runs);

 private:
  /// The nodes of a function's body, or of the graph, in the context of one call.
  struct Body {
    const FunctionDef* function = nullptr;
    const Attributes* attributes = nullptr;  ///< Attributes of the call, for placeholders in the body.
    std::unordered_map<std::string_view, std::vector<TensorRef>> arguments = {};
    std::unordered_map<std::string_view, std::string> names = {};  ///< Node → its name in the result graph.
    std::unordered_map<std::string_view, const NodeDef*> nodes = {};  ///< Nodes of a function.
    std::vector<std::string> waits_for = {};  ///< Control inputs "^node" of nodes without inputs.
  };
  /// The outcome of running a function.
  struct FunctionResult {
    std::vector<TensorRef> results;
    std::vector<std::string> effects;  ///< "^node": nodes that must run before the call is complete.
  };

  Error fail(std::string_view node, std::string_view what, std::string_view cure = {}) const;
  /// Adds a node. Errors: too many nodes.
  Result<NodeDef*> make(std::string name, std::string_view op);
  /// Returns `wanted`, or if it is taken the first free name of wanted_1, wanted_2, ….
  std::string free_name(const std::string& wanted);

  /// Resolves the text of an input within a body.
  Result<std::vector<TensorRef>> tensors_of(const NodeDef& node, const Body& body,
                                            std::string_view text) const;
  Result<std::string> control_of(std::string_view reader, const Body& body, std::string_view name) const;
  std::uint32_t first_output_of(const NodeDef& node, std::string_view output) const;
  /// Replaces attribute placeholders by the call's attributes.
  Result<Unit> fill_in(AttrValue& value, const Body& body, int depth) const;
  Result<Unit> add(const NodeDef& node, const Body& body, bool runs);
  Result<Unit> copy(const CallSite& call, std::string_view op);

  // Calls: tf_lowering.cc.
  bool is_calling(const NodeDef& node) const;
  static std::uint32_t argument_length(const OpDef::ArgDef& arg, const Attributes& attributes);
  /// Inlines the body of `function` with its nodes under `prefix`.
  Result<FunctionResult> run_function(const CallSite& call, const NameAttrList& function,
                                      std::span<const TensorRef> arguments,
                                      std::vector<std::string> waits_for, const std::string& prefix);
  Result<Unit> bind_arguments(const CallSite& call, std::span<const TensorRef> arguments, Body& body);
  Result<FunctionResult> returned_by(const CallSite& call, const Body& body);
  Result<Unit> lower(const CallSite& call);
  Result<Unit> lower_call(const CallSite& call);
  Result<Unit> lower_branches(const CallSite& call);
  Result<Unit> lower_loop(const CallSite& call);
  /// Combines what the call waits for into at most one control input, so that bodies do not multiply it.
  Result<std::vector<std::string>> gathered(const CallSite& call);
  /// Adds the node that represents the call: its results refer to other nodes, its control output is its own.
  Result<Unit> finish(const CallSite& call, const std::string& function, std::vector<TensorRef> results,
                      std::vector<std::string> effects);
  /// Adds a node of the lowered form, with the type at entry `k` of the list attribute `types`.
  Result<NodeDef*> piece(const CallSite& call, const std::string& name, std::string_view op,
                         const char* types, std::size_t k);

  /// Follows a call's result to the tensor that it finally refers to.
  Result<TensorRef> resolved(TensorRef tensor) const;
  Result<Unit> resolve();

  const GraphDef& graph_;
  const std::string_view where_;
  std::unordered_map<std::string_view, const FunctionDef*> functions_;
  std::unordered_set<std::string> taken_;  // Names in use.
  std::vector<const FunctionDef*> running_;
  std::unordered_map<std::string, std::vector<TensorRef>> results_;  // Results of calls.
  std::vector<std::pair<TensorRef, TensorShapeProto>> declared_;
  std::vector<std::pair<TensorRef, OpDef::DtypeAndShape>> handles_;
  std::size_t bytes_ = 0, renamed_ = 0, returned_ = 0;
  Inlined out_;
};

}  // namespace emplace::tf
