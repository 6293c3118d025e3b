#pragma once
/// What each kind of node becomes: ATen ops with their gradients. One table per file, one line per kind.

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

/// One node with its inputs as they were recorded.
struct Call {
  std::string_view type;
  const nlohmann::json& attrs;
  std::vector<Tensor> inputs;  ///< In argument order, without absent ones.
  std::vector<bool> number;    ///< [inputs] One number known beforehand: no operand, as in torch.
  std::vector<std::vector<double>> values;  ///< [inputs] Of small constants; empty where they are not known.
  std::vector<TensorSpec> outputs;          ///< At least one.

  const Shape& made() const { return outputs.front().shape; }
};

/// Records the node; returns its outputs, leading ones at least. Errors (kInvalid): shapes or attributes that
/// contradict the kind, in words that follow the node's name.
using Rule = Result<std::vector<Tensor>> (*)(Recorder&, const Call&);
struct NamedRule {
  std::string_view type;
  Rule rule;
};

std::span<const NamedRule> unary_rules();
std::span<const NamedRule> operand_rules();
std::span<const NamedRule> product_rules();
std::span<const NamedRule> image_rules();
std::span<const NamedRule> norm_rules();
std::span<const NamedRule> reduction_rules();
std::span<const NamedRule> shape_rules();
std::span<const NamedRule> cut_rules();
std::span<const NamedRule> lookup_rules();

/// Nothing where no rule is known.
std::optional<Rule> rule_of(std::string_view type);

// ---- For rules ----
Error contradiction(const Call& call);  ///< "its shapes do not fit an op of the kind 'Conv'".
std::int64_t integer(const nlohmann::json& attrs, const char* key, std::int64_t absent);
std::vector<std::int64_t> integers(const nlohmann::json& attrs, const char* key);
std::string word(const nlohmann::json& attrs, const char* key, std::string_view absent);
/// -1 is the last of `rank` dimensions; nothing if it is out of range.
std::optional<std::size_t> dimension(std::int64_t axis, std::size_t rank);
/// True if `shape` can be broadcast to `to`.
bool broadcasts(const Shape& shape, const Shape& to);
/// The whole numbers that input `k` holds; empty if it is absent or they are not known.
std::vector<std::int64_t> whole_values(const Call& call, std::size_t k);
/// Operands that are tensors, not numbers.
std::vector<Tensor> operands(const Call& call);

// ---- Ops that several rules are made of, with gradients; `made` is the shape of the result ----
Tensor multiplied(Recorder& r, Tensor a, Tensor b, const Shape& made);
Tensor scaled(Recorder& r, Tensor x);   ///< By a number.
Tensor shifted(Recorder& r, Tensor x);  ///< By a number.
Tensor raised(Recorder& r, Tensor x);   ///< To the power of a number.
Tensor inverse_root(Recorder& r, Tensor x);
/// The mean along `dims`, which stay as 1.
Tensor mean_along(Recorder& r, Tensor x, const std::vector<std::int64_t>& dims);
Tensor dropped_out(Recorder& r, Tensor x);

}  // namespace emplace::training
