#pragma once
/// Infers from their readers which inputs of a traced graph are state, because the text does not contain it.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/formats/torch/aten_ops.h"

namespace emplace {

/// Follows the inputs of a graph through its calls in order, until a call decides the role of an input:
///   - Parameter: the weight or bias of a product, a convolution, an embedding or a normalisation
///   - Buffer: running statistics, and inputs that the graph overwrites
///   - Input: the data of these ops
///   - Parameter: an input that is expanded, or is combined with a larger tensor or with one computed from
///     several inputs
///   - undecided: Parameter if it is floating-point, else Input
/// Integers and booleans are never Parameters. Names assigned by torch take precedence: tangents_1 is an
/// Input, p_… and …_parameters_… a Parameter, b_… and …_buffers_… a Buffer. Thread: one.
class FxRoles {
 public:
  enum class Role : std::uint8_t { kUndecided, kParameter, kBuffer, kInput };

  /// Adds an input, numbered from 0 in order of addition; `tensor` is the index of its tensor in the graph.
  void add_input(std::string_view name, DType dtype, std::uint32_t tensor);
  /// Adds a call of an op of `type` with the indices of the tensors that it reads and makes; `flipped` if its
  /// first tensor is a transposed gradient.
  void add_call(std::string_view type, bool in_place, const AtenCall& call,
                std::span<const std::uint32_t> read, std::span<const std::uint32_t> made,
                std::int64_t made_elements);

  /// Returns "Parameter", "Buffer" or "Input".
  std::string_view state_type(std::size_t input) const;

 private:
  /// The inputs that a tensor is computed from: a few, or more than that.
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
  std::vector<Origin> origins_;  // [tensors]
};

}  // namespace emplace
