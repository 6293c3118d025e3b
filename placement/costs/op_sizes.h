#pragma once
/// One op as the functions that find its kernels see it: sizes, traffic and attributes. For this room alone.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "graph/capped.h"
#include "graph/op_graph.h"
#include "graph/op_role.h"
#include "placement/costs/kernel_shape.h"

namespace emplace::kernel_shapes {

/// The kernels of one op.
struct Kernels {
  std::array<KernelShape, 2> of;
  std::size_t size = 0;
  /// Sizes below 1, as those that were left out, become 1.
  void add(KernelShape kernel) {
    for (double& each : kernel.at) each = std::max(1.0, each);
    of[size++] = kernel;
  }
};

/// [tensors] Bytes that a kernel reads of a tensor. A view may describe more than there is (expand), or name
/// more than it shows (slice): the smallest tensor on the way to the memory counts.
std::vector<std::int64_t> read_bytes(const OpGraph& graph);

/// Missing tensors have no elements. The graph, the role and the bytes must outlive it. Thread: a plain
/// value.
class OpSizes {
 public:
  OpSizes(const OpGraph& graph, OpId op, const OpRole& role, std::span<const std::int64_t> read_bytes)
      : graph_{graph}, op_{op}, role_{role}, inputs_{graph.inputs(op)}, read_bytes_{read_bytes} {}

  const OpRole& role() const { return role_; }
  Formula formula() const { return role_.kind == nullptr ? Formula::kUnknown : role_.kind->work.formula; }
  std::string_view type() const { return graph_.type_name(op_); }
  std::int64_t flops() const { return graph_.flops(op_); }
  std::int64_t groups() const { return graph_.conv_groups(op_); }

  std::size_t num_inputs() const { return inputs_.size(); }
  std::span<const std::int64_t> shape(std::size_t input) const {
    return input < inputs_.size() ? graph_.shape(inputs_[input]) : std::span<const std::int64_t>{};
  }
  std::int64_t elements(std::size_t input) const { return input < inputs_.size() ? of(inputs_[input]) : 0; }
  double bytes_of_element(std::size_t input) const {
    return input < inputs_.size() ? static_cast<double>(element_bytes(graph_.dtype(inputs_[input]))) : 0;
  }
  std::int64_t dim(std::size_t input, std::size_t axis) const {
    const auto sizes = shape(input);
    return axis < sizes.size() ? sizes[axis] : 0;
  }
  std::int64_t last(std::size_t input) const {
    const auto sizes = shape(input);
    return sizes.empty() ? 1 : sizes.back();
  }

  std::size_t num_outputs() const { return graph_.num_outputs(op_); }
  std::span<const std::int64_t> made_shape(std::size_t output = 0) const {
    return output < num_outputs() ? graph_.shape(graph_.output(op_, output))
                                  : std::span<const std::int64_t>{};
  }
  std::int64_t made(std::size_t output = 0) const {
    return output < num_outputs() ? of(graph_.output(op_, output)) : 0;
  }

  /// Traffic of one input, of all outputs, and of both; an input that is read twice counts once.
  double bytes_read(std::size_t input) const {
    return input < inputs_.size() ? static_cast<double>(read_bytes_[index(inputs_[input])]) : 0;
  }
  double bytes_made() const { return static_cast<double>(graph_.output_bytes(op_)); }
  double traffic() const;

  /// A whole number of the op's attributes, which are compact JSON; `otherwise` if it is missing.
  std::int64_t attribute(std::string_view name, std::int64_t otherwise) const;
  /// Whether the attribute is true or a number other than 0.
  bool flag(std::string_view name) const;
  /// Whether an input is a parameter or a constant, or only reformatted from one.
  bool is_weight(std::size_t input) const;

 private:
  std::int64_t of(TensorId tensor) const {
    return graph_.bytes(tensor) / element_bytes(graph_.dtype(tensor));
  }
  std::string_view value_of(std::string_view name) const;

  const OpGraph& graph_;
  const OpId op_;
  const OpRole& role_;
  const std::span<const TensorId> inputs_;
  const std::span<const std::int64_t> read_bytes_;
};

}  // namespace emplace::kernel_shapes
