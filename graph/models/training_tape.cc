#include "graph/models/training_tape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace emplace::models {
namespace {

constexpr std::string_view kAten = "aten::";

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

std::string_view optimizer_name(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return "sgd";
    case Optimizer::kMomentum:
      return "momentum";
    case Optimizer::kAdam:
      return "adam";
  }
  return "sgd";
}

TrainingTape::Scope::Scope(TrainingTape& tape, std::string_view level)
    : tape_{tape}, length_{tape.scope_.size()} {
  if (length_ > 0) tape_.scope_ += "/";
  tape_.scope_ += level;
}

const Shape& TrainingTape::shape(Tensor tensor) const {
  return ops_[tensor.op].spec.outputs[tensor.output].shape;
}

// ---- Recording ----

Tensor TrainingTape::record(Recorded op) {
  op.gradients.resize(op.spec.outputs.size());
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

Tensor TrainingTape::emit(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
                          Work work) {
  const std::string bare{type.substr(kAten.size())};
  OpSpec spec;
  spec.name = bare + "_" + std::to_string(++count_of_type_[bare]);
  spec.type = type;
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.attrs_json = json_of(work.attrs);
  spec.view = work.view;
  spec.conv_groups = work.conv_groups;
  spec.flops = work.flops;
  spec.group = scope_;
  spec.phase = phase_;
  return record({.spec = std::move(spec)});
}

Tensor TrainingTape::emit(std::string_view type, std::vector<Tensor> inputs, Shape output, Work work) {
  return emit(type, std::move(inputs), std::vector<TensorSpec>{f32(std::move(output))}, std::move(work));
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
  const std::optional<Tensor> before = ops_[target.op].gradients[target.output];
  const Tensor sum =
      before ? emit("aten::add", {*before, gradient}, shape(target), {.flops = elements(shape(target))})
             : gradient;
  ops_[target.op].gradients[target.output] = sum;
}

// ---- State ----

Tensor TrainingTape::parameter(const std::string& name, Shape shape) {
  const Tensor made = state(Rank::kParameter, "Parameter", name, DType::kF32, std::move(shape));
  ops_[made.op].differentiable = true;
  parameters_.push_back(made);
  return made;
}

Tensor TrainingTape::buffer(const std::string& name, Shape shape) {
  return state(Rank::kBuffer, "Buffer", name, DType::kF32, std::move(shape));
}

Tensor TrainingTape::input(const std::string& name, DType dtype, Shape shape) {
  return state(Rank::kInput, "Input", name, dtype, std::move(shape));
}

Tensor TrainingTape::new_zeros(Tensor like, Shape shape) {
  return emit("aten::new_zeros", {like}, std::move(shape));
}

// ---- Backward and update ----

void TrainingTape::run_backward(Tensor loss) {
  phase_ = Phase::kBackward;
  scope_ = "loss";
  ops_[loss.op].gradients[loss.output] = emit("aten::ones_like", {loss}, Shape{});
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const Gradients gradients = ops_[node->op].gradients;
    if (std::none_of(gradients.begin(), gradients.end(), [](const auto& g) { return g.has_value(); }))
      continue;
    scope_ = node->scope;
    node->backward(gradients);
  }
}

void TrainingTape::update(Tensor parameter, Tensor gradient) {
  const std::string name = ops_[parameter.op].spec.name;
  const Shape whole = shape(parameter);
  const std::int64_t n = elements(whole);
  const auto kept = [&](int k) {
    const Tensor made =
        state(Rank::kOptimizerState, "OptimizerState", name + "/opt" + std::to_string(k), DType::kF32, whole);
    ops_[made.op].spec.group = ops_[parameter.op].spec.group;
    ops_[made.op].spec.phase = Phase::kUpdate;
    ops_[made.op].spec.colocate = OpId{parameter.op};
    return made;
  };
  scope_ = name;
  const auto step = [&](std::string_view type, std::vector<Tensor> inputs, std::int64_t flops_each,
                        Attributes attrs = {}) {
    const Tensor made =
        emit(type, std::move(inputs), whole, {.attrs = std::move(attrs), .flops = n * flops_each});
    ops_[made.op].spec.colocate = OpId{parameter.op};
    return made;
  };
  switch (optimizer_) {
    case Optimizer::kSgd:
      step("aten::add", {parameter, gradient}, 2, {{"alpha", "-0.1"}});
      break;
    case Optimizer::kMomentum: {
      const Tensor decayed = step("aten::mul", {kept(0)}, 1);
      const Tensor velocity = step("aten::add", {decayed, gradient}, 1);
      step("aten::add", {parameter, velocity}, 2, {{"alpha", "-0.1"}});
      break;
    }
    case Optimizer::kAdam: {
      const Tensor first = kept(0), second = kept(1);
      const Tensor mean_decayed = step("aten::mul", {first}, 1);
      const Tensor mean = step("aten::add", {mean_decayed, gradient}, 2, {{"alpha", "0.1"}});
      const Tensor square_decayed = step("aten::mul", {second}, 1);
      const Tensor square = step("aten::addcmul", {square_decayed, gradient, gradient}, 3);
      const Tensor root = step("aten::sqrt", {square}, 2);
      const Tensor corrected = step("aten::div", {root}, 1);
      const Tensor denominator = step("aten::add", {corrected}, 1);
      step("aten::addcdiv", {parameter, mean, denominator}, 3);
      break;
    }
  }
}

Result<OpGraph> TrainingTape::finish(Tensor loss, std::string name, std::string source,
                                     std::string meta_json) {
  EMPLACE_CHECK(phase_ == Phase::kForward, "a tape is finished once");
  run_backward(loss);
  phase_ = Phase::kUpdate;
  for (const Tensor parameter : parameters_) {
    if (const auto gradient = ops_[parameter.op].gradients[0]) update(parameter, *gradient);
  }

  // Needed is what an update or the loss reads, however far back.
  std::vector<bool> needed(ops_.size(), false);
  needed[loss.op] = true;
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
  builder.set_name(std::move(name)).set_source(std::move(source)).set_meta_json(std::move(meta_json));
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
