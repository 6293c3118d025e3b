#pragma once
/// Inference for ONNX ops: element types, shapes, and the contents of small tensors that determine shapes.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/formats/reading/shape_arithmetic.h"

namespace onnx {
class AttributeProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace emplace::onnx_io {

inline constexpr std::int64_t kLargestDim = std::int64_t{1} << 40;

/// The facts known about a value before the model runs.
struct Value {
  int element = 0;                                 ///< onnx::TensorProto::DataType; 0 is unknown.
  std::optional<Shape> shape;                      ///< Set if every size is known; each is >= 0.
  std::optional<std::vector<std::int64_t>> whole;  ///< Contents of a small integer tensor.
  std::optional<std::vector<double>> real;         ///< Contents of a small real tensor.
  bool opaque = false;  ///< Whether it is a sequence, a map or an optional; `shape` is then [bytes].
};

/// The context of a rule for one op. Inputs by argument position; an absent optional input is null.
class Inference {
 public:
  /// @param outputs  one per output of the node; the rule fills them.
  Inference(const onnx::NodeProto& node, std::span<const Value* const> inputs, std::vector<Value>& outputs)
      : node_{node}, inputs_{inputs}, outputs_{outputs} {}

  std::size_t num_inputs() const { return inputs_.size(); }
  std::size_t num_outputs() const { return outputs_.size(); }
  const Value* input(std::size_t k) const { return k < inputs_.size() ? inputs_[k] : nullptr; }
  const Shape* shape(std::size_t k) const;                      ///< Null if unknown or absent.
  const std::vector<std::int64_t>* whole(std::size_t k) const;  ///< Null if unknown or absent.
  int element(std::size_t k) const { return input(k) == nullptr ? 0 : input(k)->element; }

  // Attributes; a missing one is `otherwise`, or empty.
  const onnx::AttributeProto* attribute(std::string_view name) const;
  std::int64_t number(std::string_view name, std::int64_t otherwise) const;
  std::vector<std::int64_t> list(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  /// The attribute `name`, which later opsets replaced by input `k`; nothing if the input is present but
  /// unknown.
  std::optional<std::vector<std::int64_t>> list_or_input(std::string_view name, std::size_t k) const;

  void set(std::size_t output, Shape shape);
  /// Sets a shape whose size along `axis` is the largest possible one, because it depends on data.
  void set_at_most(std::size_t output, Shape shape, std::size_t axis);
  void set_element(std::size_t output, int element);
  Value* output(std::size_t k) { return k < outputs_.size() ? &outputs_[k] : nullptr; }
  /// Reports incompatible inputs, described by `what`; the first report wins.
  void reject(std::string what);
  const std::string& rejection() const { return rejection_; }
  /// Outputs and axes of set_at_most().
  const std::vector<std::pair<std::size_t, std::size_t>>& bounds() const { return bounds_; }

 private:
  const onnx::NodeProto& node_;
  const std::span<const Value* const> inputs_;
  std::vector<Value>& outputs_;
  std::string rejection_;
  std::vector<std::pair<std::size_t, std::size_t>> bounds_;
};

/// A rule sets the shapes of the outputs that it can infer. One that takes the shape of input 0 does not run
/// if that is unknown.
struct ShapeRule {
  constexpr ShapeRule(void (*rule)(Inference&)) : any{rule} {}
  constexpr ShapeRule(void (*rule)(Inference&, const Shape& x)) : sized{rule} {}

  void (*any)(Inference&) = nullptr;
  void (*sized)(Inference&, const Shape& x) = nullptr;
};

/// Element types of outputs: one type, or that of an input.
template <int type>
int always(const Inference&) {
  return type;
}
template <std::size_t k>
int as_input(const Inference& op) {
  return op.element(k);
}

/// One row of a family's table of rules.
struct RuleRow {
  std::string_view types;  ///< Op kinds (kind_of), separated by spaces.
  std::size_t inputs;      ///< Number of required inputs.
  ShapeRule rule;
  int (*element)(const Inference&) = as_input<0>;  ///< For all outputs, unless the rule sets another.

  void apply(Inference& op) const;
};
/// The rule of an op kind, or null.
const RuleRow* shape_rule(std::string_view kind);
std::span<const RuleRow> elementwise_rules();
std::span<const RuleRow> product_rules();  ///< Matrix products, recurrences, attention.
std::span<const RuleRow> window_rules();   ///< Convolutions, pooling, images.
std::span<const RuleRow> layout_rules();   ///< Reshapes, slices, gathers, reductions.

/// Computes output contents from known input contents, for the ops of shape arithmetic.
void fold(Inference& op, std::string_view kind);

/// Formats "[2, 8]".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace emplace::onnx_io
