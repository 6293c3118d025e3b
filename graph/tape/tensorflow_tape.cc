// Variables, gradients and optimizers in the form of TensorFlow.
#include "graph/tape/tensorflow_tape.h"

#include <fmt/core.h>

#include <algorithm>

#include "graph/tape/aten_tape.h"

namespace emplace::models {
std::unique_ptr<TrainingTape> make_tape(Recording recording, Optimizer optimizer) {
  if (recording.granularity == Granularity::kAten)
    return std::make_unique<AtenTape>(optimizer, recording.training);
  return std::make_unique<TensorFlowTape>(optimizer, recording.training);
}

// ---- Names, state, dimensions ----

std::string TensorFlowTape::op_name(std::string_view type) {
  std::string name;
  if (phase_ == Phase::kBackward) name = "gradients/";
  if (applying_) name = "train/update_";
  if (!scope_.empty()) name.append(scope_).append("/");
  name += type;
  const std::uint32_t before = used_names_[name]++;
  return before == 0 ? name : fmt::format("{}_{}", name, before);
}

Tensor TensorFlowTape::parameter(const std::string& name, Shape shape) {
  const Tensor variable = TrainingTape::parameter(name, std::move(shape));
  ops_[variable.op].spec.attrs_json = R"({"op":"VariableV2"})";
  ops_[variable.op].differentiable = false;
  const Tensor made = read(variable);
  ops_[made.op].differentiable = training();
  parameters_.back().read = made;
  return made;
}

Tensor TensorFlowTape::read(Tensor state) {
  const Tensor made = view("Identity", state, shape(state));
  ops_[made.op].spec.name = ops_[state.op].spec.name + "/read";
  ops_[made.op].spec.group = ops_[state.op].spec.group;
  return made;
}

Tensor TensorFlowTape::constant(DType dtype, Shape shape) {
  const Tensor made = emit("Constant", {}, {{.dtype = dtype, .shape = std::move(shape)}}, {});
  ops_[made.op].spec.attrs_json = R"({"op":"Const"})";
  return made;
}

Tensor TensorFlowTape::dims_of(Tensor x) { return dims_of_all({x}); }

Tensor TensorFlowTape::dims_of_all(const std::vector<Tensor>& xs) {
  const auto known = [this](Tensor x) {
    const OpSpec& spec = ops_[x.op].spec;
    return spec.inputs.empty() || ops_[spec.inputs.front().op].rank == Rank::kParameter;
  };
  const Phase before = std::exchange(phase_, Phase::kBackward);
  std::vector<TensorSpec> outputs;
  outputs.reserve(xs.size());
  for (const Tensor x : xs) outputs.push_back(i32({static_cast<std::int64_t>(shape(x).size())}));
  const Tensor made = xs.size() == 1 && known(xs.front())
                          ? constant(DType::kI32, outputs.front().shape)
                          : emit(xs.size() == 1 ? "Shape" : "ShapeN", xs, std::move(outputs), {});
  phase_ = before;
  return made;
}

Tensor TensorFlowTape::view_of(std::string_view type, std::vector<Tensor> inputs, Shape output) {
  return emit(type, std::move(inputs), std::move(output), {.view = true});
}

// ---- Gradients ----

Tensor TensorFlowTape::seed(Tensor) {
  const Tensor dims = constant(DType::kI32, {0});
  return emit("Fill", {dims, constant(DType::kF32, {})}, Shape{});
}

Tensor TensorFlowTape::sum(Tensor target, const std::vector<Tensor>& gradients) {
  return emit("AddN", gradients, shape(target));
}

void TensorFlowTape::pass(const std::vector<std::pair<Tensor, Tensor>>& gradients) {
  const auto wanted = std::count_if(gradients.begin(), gradients.end(),
                                    [this](const auto& entry) { return flows(entry.first); });
  for (const auto& [target, gradient] : gradients) {
    if (!flows(target)) continue;
    accumulate(target, wanted > 1 ? view("Identity", gradient, shape(target)) : gradient);
  }
}

Tensor TensorFlowTape::reduced(Tensor gradient, Tensor target, Tensor axes, Tensor dims) {
  const std::int64_t n = elements(shape(gradient));
  const bool whole = n == elements(shape(target));
  const Tensor sum = whole ? view_of("Sum", {gradient, axes}, shape(gradient))
                           : emit("Sum", {gradient, axes}, shape(target));
  return reshape_back(sum, dims, target);
}

Tensor TensorFlowTape::reshape_back(Tensor gradient, Tensor dims, Tensor target) {
  return view_of("Reshape", {gradient, dims}, shape(target));
}

// ---- Updates ----

Tensor TensorFlowTape::at_variable(Tensor variable, std::string_view type, std::vector<Tensor> inputs,
                                   std::vector<TensorSpec> outputs, std::optional<std::int64_t> flops) {
  const Tensor made = emit(type, std::move(inputs), std::move(outputs), {.flops = flops});
  ops_[made.op].spec.colocate = OpId{variable.op};
  return made;
}

Tensor TensorFlowTape::hyperparameter(const std::string& name) {
  const auto found = hyperparameters_.find(name);
  if (found != hyperparameters_.end()) return found->second;
  const std::string scope = std::exchange(scope_, "train");
  const Tensor made = constant(DType::kF32, {});
  ops_[made.op].spec.name = "train/" + name;
  scope_ = scope;
  hyperparameters_.emplace(name, made);
  return made;
}

Tensor TensorFlowTape::power(const std::string& name, Tensor first_variable) {
  for (const auto& [known, power] : powers_) {
    if (known == name) return power.read;
  }
  const Tensor made = state(Rank::kOptimizerState, "OptimizerState", "train/" + name, DType::kF32, {});
  OpSpec& spec = ops_[made.op].spec;
  spec.group = "train";
  spec.phase = Phase::kUpdate;
  spec.colocate = OpId{first_variable.op};
  const Tensor value = read(made);
  ops_[value.op].spec.colocate = OpId{first_variable.op};
  powers_.emplace_back(name, Variable{made, value});
  return value;
}

void TensorFlowTape::update(const Variable& variable) {
  const auto found = rows_.find(variable.read.op);
  const auto dense = found == rows_.end() ? whole_gradient(variable.read) : std::nullopt;
  scope_ = ops_[variable.state.op].spec.name;
  applying_ = true;
  if (found != rows_.end()) {
    apply_rows(variable, found->second);
  } else if (dense) {
    apply(variable, *dense);
  }
  applying_ = false;
}

std::optional<Tensor> TensorFlowTape::whole_gradient(Tensor variable) {
  const auto& parts = ops_[variable.op].gradients;
  if (parts.empty() || parts.front().empty()) return std::nullopt;
  const Phase before = std::exchange(phase_, Phase::kBackward);
  scope_ = ops_[parts.front().front().op].spec.group;
  const auto whole = gradient(variable);
  phase_ = before;
  return whole;
}

void TensorFlowTape::apply(const Variable& variable, Tensor gradient) {
  const Tensor at = variable.state, rate = hyperparameter("learning_rate");
  const std::vector<TensorSpec> whole{f32(shape(at))};
  const std::int64_t n = elements(shape(at));
  switch (optimizer_) {
    case Optimizer::kSgd:
      at_variable(at, "ApplyGradientDescent", {at, rate, gradient}, whole, 2 * n);
      break;
    case Optimizer::kMomentum: {
      const Tensor velocity = slot(variable, "Momentum");
      at_variable(at, "ApplyMomentum", {at, velocity, rate, gradient, hyperparameter("momentum")}, whole,
                  4 * n);
      break;
    }
    case Optimizer::kRmsProp: {
      const Tensor square = slot(variable, "RMSProp"), velocity = slot(variable, "RMSProp_1");
      at_variable(at, "ApplyRMSProp",
                  {at, square, velocity, rate, hyperparameter("decay"), hyperparameter("momentum"),
                   hyperparameter("epsilon"), gradient},
                  whole, 13 * n);
      break;
    }
    case Optimizer::kAdam: {
      const Tensor mean = slot(variable, "Adam"), square = slot(variable, "Adam_1");
      const Tensor first = parameters_.front().state;
      at_variable(at, "ApplyAdam",
                  {at, mean, square, power("beta1_power", first), power("beta2_power", first), rate,
                   hyperparameter("beta1"), hyperparameter("beta2"), hyperparameter("epsilon"), gradient},
                  whole, 14 * n);
      break;
    }
  }
}

/// Sums the rows of equal indices first, because an update must see each row once.
void TensorFlowTape::apply_rows(const Variable& variable, Rows rows) {
  const Tensor at = variable.state, rate = hyperparameter("learning_rate");
  const Shape several = shape(rows.values);
  const std::int64_t n = elements(several);
  const TensorSpec numbers{.dtype = DType::kI64, .shape = {several[0]}};
  const Tensor unique = at_variable(at, "Unique", {rows.indices}, {numbers, i32({several[0]})});
  const Tensor dims = at_variable(at, "Shape", {unique}, {i32({1})});
  const Tensor begin = constant(DType::kI32, {1}), end = constant(DType::kI32, {1});
  const Tensor count =
      at_variable(at, "StridedSlice", {dims, begin, end, constant(DType::kI32, {1})}, {i32({})});
  const Tensor values =
      at_variable(at, "UnsortedSegmentSum", {rows.values, {unique.op, 1}, count}, {f32(several)});
  switch (optimizer_) {
    case Optimizer::kSgd: {
      const Tensor scaled = at_variable(at, "Mul", {values, rate}, {f32(several)});
      at_variable(at, "ScatterSub", {at, unique, scaled}, {f32(several)});
      break;
    }
    case Optimizer::kMomentum:
      at_variable(at, "SparseApplyMomentum",
                  {at, slot(variable, "Momentum"), rate, values, unique, hyperparameter("momentum")},
                  {f32(several)}, 4 * n);
      break;
    case Optimizer::kRmsProp: {
      const Tensor square = slot(variable, "RMSProp"), velocity = slot(variable, "RMSProp_1");
      at_variable(at, "SparseApplyRMSProp",
                  {at, square, velocity, rate, hyperparameter("decay"), hyperparameter("momentum"),
                   hyperparameter("epsilon"), values, unique},
                  {f32(several)}, 13 * n);
      break;
    }
    case Optimizer::kAdam:
      adam_rows(variable, values, unique);
      break;
  }
}

/// AdamOptimizer._apply_sparse: the moments decay as a whole, then the rows' part is scattered into them.
void TensorFlowTape::adam_rows(const Variable& variable, Tensor values, Tensor indices) {
  const Tensor at = variable.state, first = parameters_.front().state;
  const Shape whole = shape(at), several = shape(values);
  const auto number = [&](std::string_view type, std::vector<Tensor> inputs) {
    return at_variable(at, type, std::move(inputs), {f32({})}, 1);
  };
  const auto dense = [&](std::string_view type, std::vector<Tensor> inputs) {
    return at_variable(at, type, std::move(inputs), {f32(whole)});
  };
  const Tensor one = hyperparameter("one");
  const Tensor complement = number("Sub", {one, power("beta2_power", first)});
  const Tensor scaled_rate = number("Mul", {hyperparameter("learning_rate"), number("Sqrt", {complement})});
  const Tensor rate = number("RealDiv", {scaled_rate, number("Sub", {one, power("beta1_power", first)})});
  const auto moment = [&](const char* slot_name, const char* beta, Tensor part) {
    const Tensor before = slot(variable, slot_name), decay = hyperparameter(beta);
    const Tensor share = number("Sub", {one, decay});
    const Tensor scaled = at_variable(at, "Mul", {part, share}, {f32(several)});
    const Tensor decayed = dense("Mul", {before, decay});
    const Tensor assigned = dense("Assign", {before, decayed});
    return at_variable(at, "ScatterAdd", {assigned, indices, scaled}, {f32(whole)});
  };
  const Tensor mean = moment("Adam", "beta1", values);
  const Tensor squared = at_variable(at, "Mul", {values, values}, {f32(several)});
  const Tensor square = moment("Adam_1", "beta2", squared);
  const Tensor root = dense("Sqrt", {square});
  const Tensor scaled = dense("Mul", {rate, mean});
  const Tensor denominator = dense("Add", {root, hyperparameter("epsilon")});
  dense("AssignSub", {at, dense("RealDiv", {scaled, denominator})});
}

void TensorFlowTape::updates_done() {
  scope_ = "train";
  for (const auto& [name, power] : powers_) {
    const Tensor first = parameters_.front().state;
    const Tensor beta = hyperparameter(name == "beta1_power" ? "beta1" : "beta2");
    const Tensor next = at_variable(first, "Mul", {power.read, beta}, {f32({})});
    at_variable(first, "Assign", {power.state, next}, {f32({})});
  }
}

}  // namespace emplace::models
