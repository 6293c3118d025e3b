#include "graph/formats/onnx/onnx_infer.h"

#include <onnx.pb.h>

#include <string>
#include <utility>

#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/reading/rule_rows.h"

namespace emplace::onnx_io {

const Shape* Inference::shape(std::size_t k) const {
  const Value* value = input(k);
  return value == nullptr || value->opaque || !value->shape ? nullptr : &*value->shape;
}

const std::vector<std::int64_t>* Inference::whole(std::size_t k) const {
  const Value* value = input(k);
  return value == nullptr || !value->whole ? nullptr : &*value->whole;
}

const onnx::AttributeProto* Inference::attribute(std::string_view name) const { return find(node_, name); }

std::int64_t Inference::number(std::string_view name, std::int64_t otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : found->i();
}

std::vector<std::int64_t> Inference::list(std::string_view name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

std::string_view Inference::text(std::string_view name) const {
  const auto* found = attribute(name);
  return found == nullptr ? std::string_view{} : std::string_view{found->s()};
}

std::optional<std::vector<std::int64_t>> Inference::list_or_input(std::string_view name,
                                                                  std::size_t k) const {
  if (input(k) == nullptr) return list(name);
  if (whole(k) == nullptr) return std::nullopt;
  return *whole(k);
}

void Inference::set(std::size_t output, Shape shape) {
  if (output < outputs_.size()) outputs_[output].shape = std::move(shape);
}

void Inference::set_at_most(std::size_t output, Shape shape, std::size_t axis) {
  if (output >= outputs_.size()) return;
  set(output, std::move(shape));
  bounds_.emplace_back(output, axis);
}

void Inference::set_element(std::size_t output, int element) {
  if (output < outputs_.size()) outputs_[output].element = element;
}

void Inference::reject(std::string what) {
  if (rejection_.empty()) rejection_ = std::move(what);
}

void RuleRow::apply(Inference& op) const {
  for (std::size_t k = 0; k < op.num_outputs(); ++k) op.set_element(k, element(op));
  if (rule.any != nullptr) return rule.any(op);
  if (op.shape(0) != nullptr) rule.sized(op, *op.shape(0));
}

const RuleRow* shape_rule(std::string_view kind) {
  static const RowsByType<RuleRow> kRules{elementwise_rules(), product_rules(), window_rules(),
                                          layout_rules()};
  return kRules.find(kind);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(dim);
  return text + "]";
}

}  // namespace emplace::onnx_io
