#pragma once
/// Which inputs of a traced graph are state: the text does not say it, their readers do.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/formats/torch/aten_ops.h"

namespace emplace {

/// Follows the inputs of a graph through its calls, in their order, until one of them shows what an input is:
///   - the weight or bias of a product, a convolution, an embedding or a normalisation: a Parameter; running
///     statistics, and what the graph overwrites: a Buffer; what these take as their data: an Input
///   - what is expanded, or meets a larger tensor, or one that has been computed from several inputs: a
///     Parameter
///   - what is never decided: a Parameter if it is of floating point, else an Input
/// Whole numbers and truth values are never Parameters. Names that torch gives say more: tangents_1 is an
/// Input, p_… and …_parameters_… a Parameter, b_… and …_buffers_… a Buffer. Thread: one.
class FxRoles {
 public:
  enum class Role : std::uint8_t { kUndecided, kParameter, kBuffer, kInput };

  /// Inputs are numbered 0, 1, 2, … as they are added; `tensor` is the place of its tensor among the graph's.
  void add_input(std::string_view name, DType dtype, std::uint32_t tensor);
  /// A call of an op of `type`, its outputs and what it reads, by their places; `flipped` if its first tensor
  /// is a transposed gradient.
  void add_call(std::string_view type, bool in_place, const AtenCall& call,
                std::span<const std::uint32_t> read, std::span<const std::uint32_t> made,
                std::int64_t made_elements);

  /// "Parameter", "Buffer" or "Input".
  std::string_view state_type(std::size_t input) const;

 private:
  /// What a tensor is made of: a few inputs, or more than that.
  struct Origin {
    std::vector<std::uint32_t> inputs;
    bool computed = false, transposed = false;
  };
  Origin& origin(std::uint32_t tensor);
  void decide(const Origin& origin, Role role);
  bool by_parameter(std::string_view type, const AtenCall& call, std::span<const std::uint32_t> read);
  void by_size(const AtenCall& call, std::span<const std::uint32_t> read);

  std::vector<Role> roles_;
  std::vector<bool> floating_;
  std::vector<Origin> origins_;  // By tensor.
};

}  // namespace emplace
