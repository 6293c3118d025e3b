#include "graph/formats/torch/fx_roles.h"

#include <algorithm>

#include "base/text/word_list.h"
#include "graph/capped.h"
#include "graph/formats/reading/file_parts.h"

namespace emplace {
namespace {

constexpr std::size_t kMaxOrigins = 4;

/// Ops that read weights, so that their results are not weights.
constexpr std::string_view kReadWeights =
    "convolution convolution_backward conv_transpose linear addmm mm bmm baddbmm matmul embedding "
    "native_batch_norm batch_norm native_layer_norm layer_norm native_group_norm group_norm rms_norm prelu "
    "_native_batch_norm_legit_functional _native_batch_norm_legit _native_batch_norm_legit_no_training "
    "native_batch_norm_backward native_layer_norm_backward";

bool reads_weights(std::string_view base) {
  static const std::vector<std::string_view> kTypes = words_in(kReadWeights);
  return std::ranges::find(kTypes, base) != kTypes.end() ||
         base.find("scaled_dot_product") != std::string_view::npos;
}

std::int64_t elements(const TensorSpec& spec) { return capped::elements(spec.shape); }

FxRoles::Role role_of(std::string_view parameter) {
  if (parameter == "weight" || parameter == "bias") return FxRoles::Role::kParameter;
  if (parameter == "running_mean" || parameter == "running_var") return FxRoles::Role::kBuffer;
  const bool data = parameter == "input" || parameter == "self" || parameter == "indices" ||
                    parameter.starts_with("grad_out");
  return data ? FxRoles::Role::kInput : FxRoles::Role::kUndecided;
}

}  // namespace

FxRoles::Origin& FxRoles::origin(std::uint32_t tensor) {
  if (tensor >= origins_.size()) origins_.resize(tensor + 1);
  return origins_[tensor];
}

void FxRoles::add_input(std::string_view name, DType dtype, std::uint32_t tensor) {
  origin(tensor).inputs = {static_cast<std::uint32_t>(roles_.size())};
  Role role = Role::kUndecided;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name.starts_with("tangents")) role = Role::kInput;
  if (name.starts_with("p_") || has("_parameters_")) role = Role::kParameter;
  if (name.starts_with("b_") || has("_buffers_")) role = Role::kBuffer;
  // Other names are those of data, or of values that a forward graph saved for its backward graph.
  const bool numbered = name.starts_with("primals_") ||
                        (name.starts_with("arg") && name.size() > 3 && name[3] >= '0' && name[3] <= '9');
  if (role == Role::kUndecided && !numbered) role = Role::kInput;
  roles_.push_back(role);
  floating_.push_back(is_floating(dtype));
}

void FxRoles::decide(const Origin& origin, Role role) {
  for (const std::uint32_t input : origin.inputs) {
    if (roles_[input] != Role::kUndecided || (role == Role::kParameter && !floating_[input])) continue;
    roles_[input] = role;
  }
}

/// Decides roles by the names of the parameters that take the tensors. Returns whether the op's kind decides
/// them.
bool FxRoles::by_parameter(std::string_view type, const AtenCall& call, std::span<const std::uint32_t> read) {
  const std::string_view base = base_name(type);
  if (!reads_weights(base)) return false;
  for (std::size_t k = 0; k < call.args.size(); ++k) {
    const AtenArg& arg = call.args[k];
    if (arg.kind != AtenArg::Kind::kTensor) continue;
    const Origin& from = origin(read[static_cast<std::size_t>(arg.number)]);
    Role role = role_of(arg.name.empty() ? parameter_name(type, k) : std::string_view{arg.name});
    if (base == "bmm" || base == "baddbmm" || base == "matmul")
      role = k == 0 ? Role::kInput : Role::kUndecided;
    // A weight gradient is a product of a transposed gradient and the data.
    const bool gradient =
        base == "mm" && k == 1 && origin(read[0]).transposed && origin(read[0]).inputs.empty();
    decide(from, gradient ? Role::kInput : role);
  }
  return true;
}

/// A weight is smaller than the data that it is combined with, or is combined with a computed tensor.
void FxRoles::by_size(const AtenCall& call, std::span<const std::uint32_t> read) {
  std::size_t largest = 0;
  bool computed = false;
  for (std::size_t k = 0; k < read.size(); ++k) {
    if (elements(call.tensors[k].spec) > elements(call.tensors[largest].spec)) largest = k;
    computed = computed || origin(read[k]).computed;
  }
  const std::vector<std::uint32_t> data = origin(read[largest]).inputs;
  for (std::size_t k = 0; k < read.size(); ++k) {
    const Origin& from = origin(read[k]);
    const bool smaller = elements(call.tensors[k].spec) < elements(call.tensors[largest].spec);
    if (from.computed || from.inputs == data || (!smaller && !computed)) continue;
    const bool apart = std::none_of(from.inputs.begin(), from.inputs.end(), [&](std::uint32_t input) {
      return std::find(data.begin(), data.end(), input) != data.end();
    });
    if (apart) decide(from, Role::kParameter);
  }
}

void FxRoles::add_call(std::string_view type, bool in_place, const AtenCall& call,
                       std::span<const std::uint32_t> read, std::span<const std::uint32_t> made,
                       std::int64_t made_elements) {
  const std::string_view base = base_name(type);
  if (base == "copy" && in_place && !read.empty()) decide(origin(read[0]), Role::kBuffer);
  const bool decided = by_parameter(type, call, read);
  if (!decided && read.size() > 1 && !base.starts_with("index") && base != "gather" &&
      base != "_unsafe_index")
    by_size(call, read);
  if (base == "expand" && !read.empty() && made_elements > elements(call.tensors[0].spec))
    decide(origin(read[0]), Role::kParameter);

  Origin all;
  all.computed = decided;
  all.transposed = (base == "t" || base == "permute" || base == "transpose") && read.size() == 1;
  for (const std::uint32_t tensor : read) {
    const Origin& from = origin(tensor);
    all.computed = all.computed || from.computed;
    for (const std::uint32_t input : from.inputs)
      if (std::find(all.inputs.begin(), all.inputs.end(), input) == all.inputs.end())
        all.inputs.push_back(input);
    if (all.inputs.size() > kMaxOrigins) all.computed = true;
    if (all.computed) break;
  }
  if (all.computed) all.inputs.clear();
  for (const std::uint32_t tensor : made) origin(tensor) = all;
}

std::string_view FxRoles::state_type(std::size_t input) const {
  switch (roles_[input]) {
    case Role::kParameter:
      return "Parameter";
    case Role::kBuffer:
      return "Buffer";
    case Role::kInput:
      return "Input";
    case Role::kUndecided:
      break;
  }
  return floating_[input] ? "Parameter" : "Input";
}

}  // namespace emplace
