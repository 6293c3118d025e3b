#include "graph/tape/training_tape.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "graph/op_kind.h"

namespace emplace::models {
namespace {

std::string json_of(const std::map<std::string_view, std::string>& attrs) {
  std::string text = "{";
  for (const auto& [key, value] : attrs) {
    if (text.size() > 1) text += ",";
    text.append("\"").append(key).append("\":").append(value);
  }
  return text + "}";
}

}  // namespace

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

TensorSpec f32(Shape shape) { return {.dtype = DType::kF32, .shape = std::move(shape)}; }
TensorSpec i32(Shape shape) { return {.dtype = DType::kI32, .shape = std::move(shape)}; }

std::string pair_of(std::int64_t a, std::int64_t b) { return fmt::format("[{},{}]", a, b); }

bool carries_gradient(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

Shape convolved(const Shape& in, const Shape& weight, const ConvOptions& options) {
  EMPLACE_CHECK(in[1] == weight[1] * options.groups, "channels must agree");
  const auto extent = [&](std::size_t dim, std::int64_t padding) {
    return (in[dim] + 2 * padding - weight[dim]) / options.stride + 1;
  };
  return {in[0], weight[0], extent(2, options.padding), extent(3, options.width_padding())};
}

Shape pooled(const Shape& in, const PoolOptions& options) {
  const auto extent = [&](std::int64_t size) {
    return (size + 2 * options.padding - options.kernel) / options.stride + 1;
  };
  return {in[0], in[1], extent(in[2]), extent(in[3])};
}

TrainingTape::Scope::Scope(TrainingTape& tape, std::string_view level)
    : tape_{tape}, length_{tape.scope_.size()} {
  if (length_ > 0) tape_.scope_ += "/";
  tape_.scope_ += level;
}

const Shape& TrainingTape::shape(Tensor tensor) const {
  return ops_[tensor.op].spec.outputs[tensor.output].shape;
}

DType TrainingTape::dtype(Tensor tensor) const { return ops_[tensor.op].spec.outputs[tensor.output].dtype; }

// ---- Recording ----

Tensor TrainingTape::record(Recorded op) {
  ops_.push_back(std::move(op));
  return {static_cast<std::uint32_t>(ops_.size() - 1), 0};
}

Tensor TrainingTape::state(Rank rank, std::string_view type, const std::string& name, DType dtype,
                           Shape shape) {
  OpSpec spec;
  spec.name = name;
  spec.type = type;
  if (rank != Rank::kInput) spec.param_bytes = elements(shape) * element_bytes(dtype);
  const std::size_t dot = name.rfind('.');
  spec.group = rank == Rank::kInput ? "input" : name.substr(0, dot == std::string::npos ? name.size() : dot);
  spec.outputs = {{.dtype = dtype, .shape = std::move(shape)}};
  return record({.spec = std::move(spec), .rank = rank});
}

/// Work by the table's formula if it needs element counts only; otherwise the caller provides it.
std::int64_t TrainingTape::counted(const OpSpec& op, const Attributes& attrs) const {
  constexpr std::string_view kAten = "aten::";
  const std::string_view type = op.type;
  const bool aten = type.starts_with(kAten);
  const OpKind* kind = aten ? find_kind(Vocabulary::kAten, type.substr(kAten.size()))
                            : find_kind(Vocabulary::kTensorFlow, type);
  if (kind == nullptr || op.outputs.empty()) return 0;
  const WorkRule& rule = kind->work;
  if (!carries_gradient(op.outputs[0].dtype) && (aten || !rule.whole_numbers)) return 0;
  const std::int64_t n = capped::elements(op.outputs[0].shape);
  if (rule.formula == Formula::kScaledSum) return capped::times(n, attrs.contains("alpha") ? 2 : 1);
  const auto input = [&](std::size_t k) { return capped::elements(shape(op.inputs[k])); };
  return work_of_elements(rule, n, op.inputs.size(), input).value_or(0);
}

Tensor TrainingTape::emit(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
                          Work work) {
  OpSpec spec;
  spec.name = op_name(type);
  spec.type = type;
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.attrs_json = json_of(work.attrs);
  spec.view = work.view;
  spec.conv_groups = work.conv_groups;
  spec.flops = work.flops ? *work.flops : work.view ? 0 : counted(spec, work.attrs);
  spec.group = scope_;
  spec.phase = phase_;
  return record({.spec = std::move(spec)});
}

Tensor TrainingTape::emit(std::string_view type, std::vector<Tensor> inputs, Shape output, Work work) {
  const DType first = inputs.empty() ? DType::kF32 : dtype(inputs.front());
  const TensorSpec made{.dtype = carries_gradient(first) ? first : DType::kF32, .shape = std::move(output)};
  return emit(type, std::move(inputs), std::vector<TensorSpec>{made}, std::move(work));
}

Tensor TrainingTape::emit(std::string_view type, std::vector<Tensor> inputs, Shape output) {
  return emit(type, std::move(inputs), std::move(output), Work{});
}

Tensor TrainingTape::view(std::string_view type, Tensor x, Shape output, Attributes attrs) {
  return emit(type, {x}, std::move(output), {.attrs = std::move(attrs), .view = true});
}

void TrainingTape::flow(Tensor out, const std::vector<Tensor>& inputs, Backward backward) {
  if (std::none_of(inputs.begin(), inputs.end(), [&](Tensor t) { return flows(t); })) return;
  ops_[out.op].differentiable = true;
  nodes_.push_back({out.op, scope_, std::move(backward)});
}

void TrainingTape::accumulate(Tensor target, Tensor gradient) {
  if (!flows(target)) return;
  auto& by_output = ops_[target.op].gradients;
  by_output.resize(std::max<std::size_t>(by_output.size(), target.output + 1));
  by_output[target.output].push_back(gradient);
  if (sums_as_they_come()) (void)this->gradient(target);
}

std::optional<Tensor> TrainingTape::gradient(Tensor target) {
  const auto& by_output = ops_[target.op].gradients;
  if (by_output.size() <= target.output || by_output[target.output].empty()) return std::nullopt;
  if (by_output[target.output].size() == 1) return by_output[target.output].front();
  // A copy, because recording moves the referenced vector.
  const std::vector<Tensor> parts = by_output[target.output];
  const Tensor whole = sum(target, parts);
  ops_[target.op].gradients[target.output] = {whole};
  return whole;
}

std::vector<Tensor> TrainingTape::all_of(const Gradients& gradients) {
  std::vector<Tensor> all;
  for (const auto& gradient : gradients) all.push_back(gradient.value());
  return all;
}

std::vector<Tensor> TrainingTape::outputs_of(Tensor out) const {
  std::vector<Tensor> all;
  for (std::uint32_t k = 0; k < ops_[out.op].spec.outputs.size(); ++k) all.push_back({out.op, k});
  return all;
}

std::vector<TensorSpec> TrainingTape::equal_parts(Tensor x, std::int64_t parts) const {
  Shape part = shape(x);
  EMPLACE_CHECK(part[1] % parts == 0, "parts must be equal");
  part[1] /= parts;
  return std::vector<TensorSpec>(static_cast<std::size_t>(parts), f32(part));
}

std::vector<Tensor> TrainingTape::unbound(Tensor x, std::string_view type, std::string_view back,
                                          const Work& work) {
  Shape part = shape(x);
  part.erase(part.begin() + 1);
  const std::vector<TensorSpec> outputs(static_cast<std::size_t>(shape(x)[1]),
                                        {.dtype = dtype(x), .shape = part});
  const Tensor out = emit(type, {x}, outputs, work);
  flow(out, {x}, [this, x, back, attrs = work.attrs](const Gradients& dy) {
    accumulate(x, emit(back, all_of(dy), shape(x), {.attrs = attrs}));
  });
  return outputs_of(out);
}

// ---- State ----

Tensor TrainingTape::parameter(const std::string& name, Shape shape) {
  const Tensor made = state(Rank::kParameter, "Parameter", name, DType::kF32, std::move(shape));
  ops_[made.op].differentiable = training_;
  parameters_.push_back({made, made});
  return made;
}

Tensor TrainingTape::buffer(const std::string& name, Shape shape) {
  return state(Rank::kBuffer, "Buffer", name, DType::kF32, std::move(shape));
}

Tensor TrainingTape::input(const std::string& name, DType dtype, Shape shape) {
  return state(Rank::kInput, "Input", name, dtype, std::move(shape));
}

Tensor TrainingTape::slot(const Variable& variable, const std::string& name) {
  const OpSpec& owner = ops_[variable.state.op].spec;
  const Tensor made = state(Rank::kOptimizerState, "OptimizerState", owner.name + "/" + name,
                            dtype(variable.state), shape(variable.state));
  OpSpec& spec = ops_[made.op].spec;
  spec.group = ops_[variable.state.op].spec.group;
  spec.phase = Phase::kUpdate;
  spec.colocate = OpId{variable.state.op};
  return made;
}

// ---- Backward and update ----

void TrainingTape::run_backward(Tensor loss) {
  phase_ = Phase::kBackward;
  scope_ = "loss";
  accumulate(loss, seed(loss));
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    scope_ = node->scope;
    differentiating({node->op, 0});
    Gradients gradients(ops_[node->op].spec.outputs.size());
    bool any = false;
    for (std::uint32_t k = 0; k < gradients.size(); ++k) {
      gradients[k] = gradient({node->op, k});
      any = any || gradients[k].has_value();
    }
    if (any) node->backward(gradients);
  }
}

Result<OpGraph> TrainingTape::finish(Tensor loss, Identity identity) {
  EMPLACE_CHECK(training_ && phase_ == Phase::kForward,
                "finish() needs a training tape and may be called once");
  run_backward(loss);
  phase_ = Phase::kUpdate;
  const std::vector<Variable> parameters = parameters_;  // A copy, because a dialect may add parameters.
  for (const Variable& parameter : parameters) update(parameter);
  updates_done();
  return built({loss}, std::move(identity));
}

Result<OpGraph> TrainingTape::finish_forward(const std::vector<Tensor>& outputs, Identity identity) {
  EMPLACE_CHECK(!training_, "finish_forward() needs a tape without training");
  return built(outputs, std::move(identity));
}

Result<OpGraph> TrainingTape::built(const std::vector<Tensor>& results, Identity identity) {
  // Needed ops are those that an update or the loss depends on.
  std::vector<bool> needed(ops_.size(), false);
  for (const Tensor result : results) needed[result.op] = true;
  for (std::size_t i = ops_.size(); i-- > 0;) {
    if (ops_[i].spec.phase == Phase::kUpdate) needed[i] = true;
    if (!needed[i]) continue;
    for (const Tensor input : ops_[i].spec.inputs) needed[input.op] = true;
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    if (needed[i]) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return ops_[a].rank < ops_[b].rank; });
  std::vector<std::uint32_t> position(ops_.size(), 0);
  for (std::uint32_t k = 0; k < order.size(); ++k) position[order[k]] = k;

  OpGraphBuilder builder;
  builder.set_name(std::move(identity.name))
      .set_source(std::move(identity.source))
      .set_meta_json(std::move(identity.meta_json));
  builder.reserve(order.size());
  for (const std::uint32_t i : order) {
    OpSpec spec = std::move(ops_[i].spec);
    for (Tensor& input : spec.inputs) input.op = position[input.op];
    if (spec.colocate != kNoOp) spec.colocate = OpId{position[index(spec.colocate)]};
    builder.add(std::move(spec));
  }
  return std::move(builder).build();
}

}  // namespace emplace::models
