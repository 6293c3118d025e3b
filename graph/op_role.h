#pragma once
/// What an op's type states about its operands: which of them its products multiply, and in what format.

#include <cstdint>
#include <string_view>

#include "graph/op_kind.h"

namespace emplace {

/// Formats that the types of products state themselves; other products compute in that of their factors.
enum class FactorFormat : std::uint8_t {
  kOfFactors,
  kInt8,  ///< Eight-bit integers, to which floating-point factors are converted.
  kFp8,
  kW4  ///< Weights of four bits by default; the attribute `bits` may state eight.
};

struct OpRole {
  Vocabulary vocabulary = Vocabulary::kGraph;
  const OpKind* kind = nullptr;        ///< Null for a type without a rule.
  bool product = false;                ///< Whether its work is products, convolutions or attention.
  bool convolves = false;              ///< Whether the switch of cuDNN decides its float32 arithmetic.
  std::uint8_t first = 0, second = 1;  ///< Inputs that its products multiply, of a product.
  FactorFormat format = FactorFormat::kOfFactors;
};

/// The role of a graph's op type ("aten::mm", "Conv", "hlo::dot"). Unlike class_of_type, patterns count.
/// Pure; any thread.
OpRole role_of_type(std::string_view type);

}  // namespace emplace
