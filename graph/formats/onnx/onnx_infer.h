#pragma once
/// What an ONNX op makes of its inputs: element types, shapes, and the contents of small tensors that decide
/// shapes.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnx {
class AttributeProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace emplace::onnx_io {

using Shape = std::vector<std::int64_t>;

/// One value of a model as far as it is known before the model runs.
struct Value {
  int element = 0;                                 ///< onnx::TensorProto::DataType; 0 is not known.
  std::optional<Shape> shape;                      ///< Every size known, each >= 0.
  std::optional<std::vector<std::int64_t>> whole;  ///< Contents of a small tensor of whole numbers.
  std::optional<std::vector<double>> real;         ///< Contents of a small tensor of real numbers.
  bool opaque = false;                             ///< A sequence, a map, or an optional: `shape` is [bytes].
};

/// One op while a rule works on it. Inputs by argument position; an absent optional one is null.
class Inference {
 public:
  /// @param outputs  as many as the node has; the rule fills them.
  Inference(const onnx::NodeProto& node, std::span<const Value* const> inputs, std::vector<Value>& outputs)
      : node_{node}, inputs_{inputs}, outputs_{outputs} {}

  const onnx::NodeProto& node() const { return node_; }
  std::size_t num_inputs() const { return inputs_.size(); }
  std::size_t num_outputs() const { return outputs_.size(); }
  const Value* input(std::size_t k) const { return k < inputs_.size() ? inputs_[k] : nullptr; }
  const Shape* shape(std::size_t k) const;                      ///< Null if it is not known, or absent.
  const std::vector<std::int64_t>* whole(std::size_t k) const;  ///< The same.
  int element(std::size_t k) const { return input(k) == nullptr ? 0 : input(k)->element; }

  // Attributes; what is not there is `otherwise`, or empty.
  const onnx::AttributeProto* attribute(std::string_view name) const;
  std::int64_t number(std::string_view name, std::int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::vector<std::int64_t> list(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  /// The attribute `name`, which later opsets made input `k`; nothing if the input is there and not known.
  std::optional<std::vector<std::int64_t>> list_or_input(std::string_view name, std::size_t k) const;

  void set(std::size_t output, Shape shape);
  void set_element(std::size_t output, int element);
  Value* output(std::size_t k) { return k < outputs_.size() ? &outputs_[k] : nullptr; }
  /// The inputs do not go together, `what` says how; the first complaint counts.
  void misfit(std::string what);
  const std::string& complaint() const { return complaint_; }

 private:
  const onnx::NodeProto& node_;
  const std::span<const Value* const> inputs_;
  std::vector<Value>& outputs_;
  std::string complaint_;
};

/// A rule fills outputs of which it knows something and leaves the others.
using ShapeRule = void (*)(Inference&);
/// The rule of an op kind (kind_of), or null; and how many inputs it cannot do without.
struct KnownKind {
  ShapeRule rule = nullptr;
  std::size_t inputs = 0;
};
KnownKind shape_rule(std::string_view kind);

/// Contents of the outputs where those of the inputs are known, for the ops of shape arithmetic.
void fold(Inference& op, std::string_view kind);

/// "axis" of `rank` dimensions, counted from the end if it is negative; nothing if it is out of range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);
/// "[2, 8]".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace emplace::onnx_io
