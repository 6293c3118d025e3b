// Gradients and optimizers in the form of torch's tracer.
#include "graph/tape/aten_tape.h"

#include <fmt/core.h>

#include <utility>

namespace emplace::models {
namespace {

constexpr std::string_view kAten = "aten::";

}  // namespace

// ---- The dialect ----

std::string AtenTape::op_name(std::string_view type) {
  std::string bare{type.substr(kAten.size())};
  const std::uint64_t number = ++count_of_type_[bare];
  return fmt::format("{}_{}", bare, number);
}

Tensor AtenTape::seed(Tensor loss) { return emit("aten::ones_like", {loss}, Shape{}); }

Tensor AtenTape::sum(Tensor target, const std::vector<Tensor>& gradients) {
  return emit("aten::add", gradients, shape(target));
}

Tensor AtenTape::new_zeros(Tensor like, Shape shape) {
  return emit("aten::new_zeros", {like}, std::move(shape));
}

void AtenTape::update(const Variable& variable) {
  const auto arrived = gradient(variable.read);
  if (!arrived) return;
  const Tensor parameter = variable.state, gradient = *arrived;
  const std::string name = ops_[parameter.op].spec.name;
  const Shape whole = shape(parameter);
  const auto kept = [&](int k) { return slot(variable, fmt::format("opt{}", k)); };
  scope_ = name;
  const auto step = [&](std::string_view type, std::vector<Tensor> inputs, Attributes attrs = {}) {
    const Tensor made = emit(type, std::move(inputs), whole, {.attrs = std::move(attrs)});
    ops_[made.op].spec.colocate = OpId{parameter.op};
    return made;
  };
  switch (optimizer_) {
    case Optimizer::kSgd:
      step("aten::add", {parameter, gradient}, {{"alpha", "-0.1"}});
      break;
    case Optimizer::kMomentum: {
      const Tensor decayed = step("aten::mul", {kept(0)});
      const Tensor velocity = step("aten::add", {decayed, gradient});
      step("aten::add", {parameter, velocity}, {{"alpha", "-0.1"}});
      break;
    }
    case Optimizer::kRmsProp: {
      const Tensor square_before = kept(0), velocity_before = kept(1);
      const Tensor square_decayed = step("aten::mul", {square_before});
      const Tensor square = step("aten::addcmul", {square_decayed, gradient, gradient});
      const Tensor decayed = step("aten::mul", {velocity_before});
      const Tensor root = step("aten::sqrt", {step("aten::add", {square})});
      const Tensor velocity = step("aten::addcdiv", {decayed, gradient, root});
      step("aten::add", {parameter, velocity}, {{"alpha", "-0.045"}});
      break;
    }
    case Optimizer::kAdam: {
      const Tensor first = kept(0), second = kept(1);
      const Tensor mean_decayed = step("aten::mul", {first});
      const Tensor mean = step("aten::add", {mean_decayed, gradient}, {{"alpha", "0.1"}});
      const Tensor square_decayed = step("aten::mul", {second});
      const Tensor square = step("aten::addcmul", {square_decayed, gradient, gradient});
      const Tensor root = step("aten::sqrt", {square});
      const Tensor corrected = step("aten::div", {root});
      const Tensor denominator = step("aten::add", {corrected});
      step("aten::addcdiv", {parameter, mean, denominator});
      break;
    }
  }
}

}  // namespace emplace::models
