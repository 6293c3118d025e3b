#include "graph/training/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace emplace::training {
namespace {

constexpr std::string_view kAten = "aten::";

}  // namespace

std::string json_list(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (const std::int64_t value : values) {
    if (text.size() > 1) text += ",";
    text += std::to_string(value);
  }
  return text + "]";
}

Recorder::Recorder(models::Optimizer optimizer, const std::vector<std::string>& names)
    : AtenTape{optimizer}, taken_{names.begin(), names.end()} {}

// ---- Names ----

std::string Recorder::free_name(std::string wanted) {
  if (taken_.insert(wanted).second) return wanted;
  for (;;) {
    std::string numbered = fmt::format("{}_{}", wanted, ++uses_[wanted] + 1);
    if (taken_.insert(numbered).second) return numbered;
  }
}

std::string Recorder::op_name(std::string_view type) {
  if (type.starts_with(kAten)) type.remove_prefix(kAten.size());
  return free_name(prefix_ + "/" + std::string{type});
}

void Recorder::begin(std::string_view name, std::string_view scope) {
  node_ = prefix_ = name;
  scope_ = scope;
  first_ = ops_.size();
}

void Recorder::end(Tensor result) {
  if (result.op < first_) return;  // The node returns one of its inputs.
  std::size_t work = result.op;
  if (ops_[work].spec.view) {
    for (std::size_t i = ops_.size(); i-- > first_;) {
      if (ops_[i].spec.flops > ops_[work].spec.flops) work = i;
    }
  }
  ops_[work].spec.name = node_;
}

void Recorder::differentiating(Tensor out) { prefix_ = ops_[out.op].spec.name + "/grad"; }

void Recorder::update(const Variable& variable) {
  prefix_ = ops_[variable.state.op].spec.name + "/" + std::string{word_of(optimizer_)};
  AtenTape::update(variable);
}

// ---- State ----

Tensor Recorder::trained(const std::string& name, const TensorSpec& tensor) {
  const Tensor made = state(Rank::kParameter, "Parameter", name, tensor.dtype, tensor.shape);
  ops_[made.op].differentiable = true;
  parameters_.push_back({made, made});
  return made;
}

Tensor Recorder::kept(const std::string& name, const TensorSpec& tensor) {
  return state(Rank::kBuffer, "Buffer", name, tensor.dtype, tensor.shape);
}

Tensor Recorder::given(const OpSpec& spec) {
  const Rank rank = spec.type == "Input"      ? Rank::kInput
                    : spec.type == "Constant" ? Rank::kConstant
                                              : Rank::kBuffer;
  return record({.spec = spec, .rank = rank});
}

Tensor Recorder::label(std::string_view wanted, const TensorSpec& tensor) {
  return input(free_name(std::string{wanted}), tensor.dtype, tensor.shape);
}

// ---- Ops ----

Tensor Recorder::copy_op(OpSpec spec) { return record({.spec = std::move(spec)}); }

Tensor Recorder::op(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
                    std::int64_t flops, Attributes attrs, std::int64_t conv_groups) {
  return emit(type, std::move(inputs), std::move(outputs),
              {.attrs = std::move(attrs), .flops = flops, .conv_groups = conv_groups});
}

Tensor Recorder::op(std::string_view type, std::vector<Tensor> inputs, Shape output, std::int64_t flops,
                    Attributes attrs) {
  return emit(type, std::move(inputs), std::move(output), {.attrs = std::move(attrs), .flops = flops});
}

Tensor Recorder::op(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
                    Attributes attrs) {
  return emit(type, std::move(inputs), std::move(outputs), {.attrs = std::move(attrs)});
}

Tensor Recorder::op(std::string_view type, std::vector<Tensor> inputs, Shape output, Attributes attrs) {
  return emit(type, std::move(inputs), std::move(output), {.attrs = std::move(attrs)});
}

Tensor Recorder::pointwise(std::string_view type, std::vector<Tensor> inputs, Shape output,
                           std::int64_t flops_each, Attributes attrs) {
  const std::int64_t flops = times(elements(output), flops_each);
  return op(type, std::move(inputs), std::move(output), flops, std::move(attrs));
}

Tensor Recorder::viewed(std::string_view type, Tensor x, Shape output, Attributes attrs) {
  const TensorSpec tensor{.dtype = dtype(x), .shape = std::move(output)};
  return emit(type, {x}, std::vector<TensorSpec>{tensor}, {.attrs = std::move(attrs), .view = true});
}

Tensor Recorder::parts(std::string_view type, Tensor x, std::vector<TensorSpec> outputs, Attributes attrs) {
  return emit(type, {x}, std::move(outputs), {.attrs = std::move(attrs), .view = true});
}

Tensor Recorder::viewed_as(Tensor x, const Shape& output) {
  return shape(x) == output ? x : viewed("aten::view", x, output);
}

// ---- With gradients ----

Tensor Recorder::reshaped(Tensor x, const Shape& output) {
  if (shape(x) == output) return x;
  const Tensor out = viewed("aten::view", x, output);
  flow(out, {x}, [this, x](const Gradients& dy) { add_gradient(x, viewed_as(*dy[0], shape(x))); });
  return out;
}

Tensor Recorder::expanded(Tensor x, const Shape& output) {
  if (shape(x) == output) return x;
  const Tensor out = viewed("aten::expand", x, output);
  flow(out, {x}, [this, x](const Gradients& dy) { add_gradient(x, *dy[0]); });
  return out;
}

Tensor Recorder::permuted(Tensor x, const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> back(order.size());
  Shape turned;
  for (std::size_t d = 0; d < order.size(); ++d) {
    turned.push_back(shape(x)[static_cast<std::size_t>(order[d])]);
    back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  }
  if (back == order && order.size() == 2 && order[0] == 1) return transposed(x);
  const Tensor out = viewed("aten::permute", x, turned, {{"dims", json_list(order)}});
  flow(out, {x}, [this, x, back](const Gradients& dy) {
    add_gradient(x, viewed("aten::permute", *dy[0], shape(x), {{"dims", json_list(back)}}));
  });
  return out;
}

Tensor Recorder::swapped(Tensor x) {
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < shape(x).size(); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permuted(x, order);
}

// ---- Gradients ----

Tensor Recorder::summed(Tensor gradient, const Shape& to) {
  const Shape from = shape(gradient);
  if (from == to || from.size() < to.size()) return gradient;
  const std::size_t more = from.size() - to.size();
  std::vector<std::int64_t> dims;
  Shape kept_dims = from;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (d >= more && to[d - more] == from[d]) continue;
    if (from[d] != 1) dims.push_back(static_cast<std::int64_t>(d));
    kept_dims[d] = 1;
  }
  if (!dims.empty())
    gradient = op("aten::sum", {gradient}, kept_dims, elements(from),
                  {{"dim", json_list(dims)}, {"keepdim", "true"}});
  return viewed_as(gradient, to);
}

void Recorder::add_gradient(Tensor target, Tensor gradient) {
  if (!flows(target)) return;
  const Shape to = shape(target);
  accumulate(target, summed(gradient, to));
}

}  // namespace emplace::training
