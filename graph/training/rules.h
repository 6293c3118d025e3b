#pragma once
/// Maps each kind of node to ATen ops with gradients. One table per file, one line per kind.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/training/recorder.h"

namespace emplace::training {

/// One node with its recorded inputs.
struct Call {
  std::string_view type;
  const nlohmann::json& attrs;
  std::vector<Tensor> inputs;  ///< Inputs in argument order, without absent ones; at least one.
  std::vector<bool> number;  ///< [inputs] Whether it is a single number known statically; as in torch, it is
                             ///< then not an operand.
  std::vector<std::vector<double>> values;  ///< [inputs] Values of small constants; empty if unknown.
  std::vector<TensorSpec> outputs;          ///< Outputs; at least one.

  const Shape& made() const { return outputs.front().shape; }
};

/// The outputs of a node, or at least the leading ones. Errors (kInvalid): shapes or attributes that
/// contradict the kind, as text that follows the node's name.
using Made = Result<std::vector<Tensor>>;
/// Records the node.
using Rule = Made (*)(Recorder&, const Call&);
struct NamedRule {
  std::string_view type;
  Rule rule;
};

std::span<const NamedRule> unary_rules();
std::span<const NamedRule> operand_rules();
std::span<const NamedRule> product_rules();
std::span<const NamedRule> fused_rules();
std::span<const NamedRule> image_rules();
std::span<const NamedRule> norm_rules();
std::span<const NamedRule> reduction_rules();
std::span<const NamedRule> shape_rules();
std::span<const NamedRule> cut_rules();
std::span<const NamedRule> lookup_rules();

/// The rule of a type; nothing if there is none.
std::optional<Rule> rule_of(std::string_view type);

// Helpers for rules.
Error contradiction(const Call& call);  ///< Error "its shapes do not match an op of the kind 'Conv'".
std::int64_t integer(const nlohmann::json& attrs, const char* key, std::int64_t absent);
std::vector<std::int64_t> integers(const nlohmann::json& attrs, const char* key);
std::string word(const nlohmann::json& attrs, const char* key, std::string_view absent);
/// Normalises an axis: -1 is the last of `rank` dimensions. Returns nothing if out of range.
std::optional<std::size_t> dimension(std::int64_t axis, std::size_t rank);
/// Returns whether `shape` can be broadcast to `to`.
bool broadcasts(const Shape& shape, const Shape& to);
/// The integers in input `k`; empty if it is absent or unknown.
std::vector<std::int64_t> whole_values(const Call& call, std::size_t k);
/// The operands that are tensors, not numbers.
std::vector<Tensor> operands(const Call& call);
/// Types and shapes of tensors.
std::vector<TensorSpec> specs_of(const Recorder& r, const std::vector<Tensor>& tensors);

// Ops shared by several rules, with gradients; `made` is the shape of the result.
Tensor added(Recorder& r, Tensor a, Tensor b, const Shape& made);
Tensor multiplied(Recorder& r, Tensor a, Tensor b, const Shape& made);
Tensor scaled(Recorder& r, Tensor x);   ///< Multiplies by a number.
Tensor shifted(Recorder& r, Tensor x);  ///< Adds a number.
Tensor raised(Recorder& r, Tensor x);   ///< Raises to the power of a number.
Tensor inverse_root(Recorder& r, Tensor x);
/// The mean along `dims`, which stay with size 1.
Tensor mean_along(Recorder& r, Tensor x, const std::vector<std::int64_t>& dims);
/// Pads the last dimensions, as many as there are values.
Tensor padded(Recorder& r, Tensor x, const std::vector<std::int64_t>& before,
              const std::vector<std::int64_t>& after);

}  // namespace emplace::training
