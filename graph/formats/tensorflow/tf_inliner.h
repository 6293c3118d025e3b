#pragma once
/// What inline_functions works with: the graph as it grows, body by body.

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

/// Null if there is none of that name.
const AttrValue* find_in(const Attributes& attributes, std::string_view name);

/// An output of a node of the whole graph.
struct TensorRef {
  std::string node;
  std::uint32_t output = 0;

  /// As inputs are written: "node" or "node:2".
  std::string text() const { return output == 0 ? node : fmt::format("{}:{}", node, output); }
};

/// "^node", "node", "node:2", "node:output" or "node:output:2"; of a function's argument "name" or "name:2".
struct InputText {
  bool ok = true;
  bool control = false, has_number = false;
  std::string_view node, output;
  std::uint32_t number = 0;
};
InputText parse_input(std::string_view text);

/// One node with its inputs as nodes of the whole graph.
struct CallSite {
  const NodeDef& node;
  std::string name;  ///< In the whole.
  std::vector<TensorRef> inputs;
  std::vector<std::string> waits_for;  ///< "^node"
  Attributes attributes;               ///< Its own, without placeholders.
};

/// Thread: one. Used once.
class Inliner {
 public:
  Inliner(const GraphDef& graph, std::string_view where);
  /// As inline_functions.
  Result<Inlined> run(const std::function<bool(int)>& runs);

 private:
  /// The nodes of a function's body, or of the graph, as one call sees them.
  struct Body {
    const FunctionDef* function = nullptr;
    const Attributes* attributes = nullptr;  ///< Of the call, for what the body leaves open.
    std::unordered_map<std::string_view, std::vector<TensorRef>> arguments = {};
    std::unordered_map<std::string_view, std::string> names = {};     ///< Node → its name in the whole.
    std::unordered_map<std::string_view, const NodeDef*> nodes = {};  ///< Of a function.
    std::vector<std::string> waits_for = {};                          ///< "^node": of what reads nothing.
  };
  /// What running a function gave.
  struct Ran {
    std::vector<TensorRef> results;
    std::vector<std::string> effects;  ///< "^node": what must have run when the call has.
  };

  Error fail(std::string_view node, std::string_view what, std::string_view cure = {}) const;
  /// A new node. Errors: too many.
  Result<NodeDef*> make(std::string name, std::string_view op);
  /// `wish`, or if a node has that name the first of wish_1, wish_2, … that is free.
  std::string free_name(const std::string& wish);

  /// What an input's text means in a body.
  Result<std::vector<TensorRef>> tensors_of(const NodeDef& node, const Body& body,
                                            std::string_view text) const;
  Result<std::string> control_of(std::string_view reader, const Body& body, std::string_view name) const;
  std::uint32_t first_output_of(const NodeDef& node, std::string_view output) const;
  /// Puts the call's attribute where a body has a placeholder for it.
  Result<Unit> fill_in(AttrValue& value, const Body& body, int depth) const;
  Result<Unit> add(const NodeDef& node, const Body& body, bool runs);
  Result<Unit> copy(const CallSite& call, std::string_view op);

  // Calls: tf_lowering.cc.
  bool is_calling(const NodeDef& node) const;
  static std::uint32_t argument_length(const OpDef::ArgDef& arg, const Attributes& attributes);
  /// Puts the body of `function` in, its nodes under `prefix`.
  Result<Ran> run_function(const CallSite& call, const NameAttrList& function,
                           std::span<const TensorRef> arguments, std::vector<std::string> waits_for,
                           const std::string& prefix);
  Result<Unit> bind_arguments(const CallSite& call, std::span<const TensorRef> arguments, Body& body);
  Result<Ran> returned_by(const CallSite& call, const Body& body);
  Result<Unit> lower(const CallSite& call);
  Result<Unit> lower_call(const CallSite& call);
  Result<Unit> lower_branches(const CallSite& call);
  Result<Unit> lower_loop(const CallSite& call);
  /// What the call waits for as at most one control input, so that bodies do not multiply it.
  Result<std::vector<std::string>> gathered(const CallSite& call);
  /// The node that stands for the call from now on: its results are others', its control output its own.
  Result<Unit> finish(const CallSite& call, const std::string& function, std::vector<TensorRef> results,
                      std::vector<std::string> effects);
  /// A node of the lowered form, of the type that entry `k` of the list attribute `types` has.
  Result<NodeDef*> piece(const CallSite& call, const std::string& name, std::string_view op,
                         const char* types, std::size_t k);

  /// The tensor that a call's result is in the end.
  Result<TensorRef> resolved(TensorRef tensor) const;
  Result<Unit> resolve();

  const GraphDef& graph_;
  const std::string_view where_;
  std::unordered_map<std::string_view, const FunctionDef*> functions_;
  std::unordered_set<std::string> taken_;  // Names.
  std::vector<const FunctionDef*> running_;
  std::unordered_map<std::string, std::vector<TensorRef>> results_;  // Of calls.
  std::vector<std::pair<TensorRef, TensorShapeProto>> declared_;
  std::vector<std::pair<TensorRef, OpDef::DtypeAndShape>> handles_;
  std::size_t bytes_ = 0, renamed_ = 0, returned_ = 0;
  Inlined out_;
};

}  // namespace emplace::tf
