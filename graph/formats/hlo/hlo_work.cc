#include "graph/formats/hlo/hlo_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "graph/capped.h"
#include "graph/formats/reading/file_parts.h"
#include "graph/op_kind.h"

namespace emplace {
namespace {

constexpr int kDeepestCall = 64;
constexpr std::int64_t kMaxPairs = 1 << 22;  // Limit of positions that are enumerated one by one.

using capped::plus;
using capped::times;

/// The tensor of a shape; of a tuple its first one.
const TensorSpec& first_tensor(const HloShape& shape) {
  return shape.tuple && !shape.parts.empty() ? first_tensor(shape.parts[0]) : shape.tensor;
}
std::int64_t elements(const HloShape& shape) {
  return shape.tuple && shape.parts.empty() ? 0 : capped::elements(first_tensor(shape).shape);
}
bool floating(const HloShape& shape) {
  return !(shape.tuple && shape.parts.empty()) && is_floating(first_tensor(shape).dtype);
}

/// A window list such as "3x3"; `otherwise` for each axis if it is missing.
std::vector<std::int64_t> window_list(std::string_view window, std::string_view key, std::size_t axes,
                                      std::int64_t otherwise) {
  std::vector<std::int64_t> values(axes, otherwise);
  const std::string with = std::string{key} + "=";
  for (std::size_t at = 0; (at = window.find(with, at)) != std::string_view::npos; at += with.size()) {
    if (at > 0 && window[at - 1] != ' ' && window[at - 1] != '{') continue;
    const std::string_view rest = window.substr(at + with.size());
    const auto numbers = hlo_numbers(rest.substr(0, rest.find_first_of(" }")));
    for (std::size_t k = 0; k < std::min(axes, numbers.size()); ++k) values[k] = numbers[k];
    break;
  }
  return values;
}

/// One axis of a convolution: counts the (output, kernel) position pairs that meet an input element.
struct Axis {
  std::int64_t input = 0, kernel = 1, output = 0, stride = 1, low = 0, input_dilation = 1,
               kernel_dilation = 1;

  std::int64_t pairs() const {
    if (input <= 0 || kernel <= 0 || output <= 0 || input_dilation <= 0 || input > (std::int64_t{1} << 31) ||
        times(kernel, output) > kMaxPairs)
      return times(kernel, output);
    const std::int64_t last = (input - 1) * input_dilation;
    std::int64_t met = 0;
    for (std::int64_t k = 0; k < kernel; ++k)
      for (std::int64_t o = 0; o < output; ++o) {
        const std::int64_t at = times(o, stride) - low + times(k, kernel_dilation);
        met += at >= 0 && at <= last && at % input_dilation == 0 ? 1 : 0;
      }
    return met;
  }
};

/// The roles of three tensors in a convolution, each by the labels of its dimensions ("b01f"). In a gradient
/// the result is the input or the kernel of the forward pass, which the labels and the window describe.
struct Convolved {
  const TensorSpec &input, &kernel, &output;
};

std::int64_t convolution(const HloInstruction& one, const Convolved& of) {
  const std::string_view labels = one.attribute("dim_labels"), window = one.attribute("window");
  const std::size_t under = labels.find('_'), arrow = labels.find("->");
  if (under == std::string_view::npos || arrow == std::string_view::npos || arrow < under) return 0;
  const std::string_view in = labels.substr(0, under), weights = labels.substr(under + 1, arrow - under - 1),
                         out = labels.substr(arrow + 2);
  const auto size = [](const TensorSpec& tensor, std::string_view names, char name) -> std::int64_t {
    const std::size_t at = names.find(name);
    return at < tensor.shape.size() ? tensor.shape[at] : 1;
  };
  const std::size_t axes = in.size() < 2 ? 0 : in.size() - 2;
  const auto stride = window_list(window, "stride", axes, 1),
             before = window_list(window, "lhs_dilate", axes, 1),
             inside = window_list(window, "rhs_dilate", axes, 1);
  const auto pads = [&] {
    std::vector<std::int64_t> low(axes, 0);
    const std::size_t at = window.find("pad=");
    if (at == std::string_view::npos) return low;
    std::string_view rest = window.substr(at + 4);
    rest = rest.substr(0, rest.find_first_of(" }"));
    for (std::size_t k = 0; k < axes && !rest.empty(); ++k) {
      if (const auto numbers = hlo_numbers(rest.substr(0, rest.find_first_of("_x"))); !numbers.empty())
        low[k] = numbers[0];
      rest.remove_prefix(std::min(rest.find('x'), rest.size() - 1) + 1);
    }
    return low;
  }();
  // Dimensions without a letter are parts of the features: cuDNN's vectors of 4 or 32.
  const auto features = [&](const TensorSpec& tensor, std::string_view names, char name) {
    std::int64_t product = size(tensor, names, name);
    for (std::size_t k = 0; k < tensor.shape.size(); ++k)
      if (k >= names.size() || names[k] == '?') product = times(product, tensor.shape[k]);
    return product;
  };
  // The batch of the output and the features of the kernel are those of one group.
  std::int64_t work = times(2, times(size(of.output, out, 'b'), times(features(of.kernel, weights, 'i'),
                                                                      features(of.output, out, 'f'))));
  for (std::size_t k = 0; k < axes && k < 10; ++k) {
    const char name = static_cast<char>('0' + k);
    work = times(work, Axis{size(of.input, in, name), size(of.kernel, weights, name),
                            size(of.output, out, name), stride[k], pads[k], before[k], inside[k]}
                           .pairs());
  }
  return work;
}

/// The value behind KEY in a backend_config: JSON, or JSON in a string with escaped quotes. Empty if absent.
std::string_view configured(std::string_view config, std::string_view key) {
  for (std::size_t at = 0; (at = config.find(key, at)) != std::string_view::npos; at += key.size()) {
    std::string_view rest = config.substr(at + key.size());
    if (at == 0 || config[at - 1] != '"' || rest.empty() || (rest[0] != '"' && rest[0] != '\\')) continue;
    rest.remove_prefix(std::min(rest.find(':'), rest.size() - 1) + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \\\""), rest.size()));
    return rest.substr(0, rest.find_first_of(rest.starts_with('[') ? "]" : ",}\"\\"));
  }
  return {};
}

/// The product of the sizes of the named dimensions.
std::int64_t sizes_of(const TensorSpec& tensor, const std::vector<std::int64_t>& dimensions) {
  std::int64_t product = 1;
  for (const std::int64_t axis : dimensions)
    if (axis >= 0 && static_cast<std::size_t>(axis) < tensor.shape.size())
      product = times(product, tensor.shape[static_cast<std::size_t>(axis)]);
  return product;
}

/// Scores of a fused attention from its config: [batch, heads, length, total length].
std::int64_t scores_of(std::string_view config) {
  const std::size_t at = config.find("intermediate_tensor_shape");
  if (at == std::string_view::npos) return 0;
  std::int64_t scores = 1;
  for (const std::int64_t size : hlo_numbers(configured(config.substr(at), "dimensions")))
    scores = times(scores, size);
  return scores;
}

/// Work of the epilogue of a product or convolution, per element of its result: "BIAS_GELU_AUX" is 13.
std::int64_t epilogue(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return (has("BIAS") ? 1 : 0) + (has("RELU") ? 1 : 0) + (has("GELU") ? 12 : 0) + (has("SILU") ? 5 : 0);
}

std::int64_t window_area(const HloInstruction& one, std::int64_t outputs) {
  std::int64_t area = 1;
  for (const std::int64_t size : window_list(one.attribute("window"), "size", outputs == 0 ? 0 : 8, 1))
    area = times(area, size);
  return area;
}

/// "dot", or "custom-call:TARGET".
std::string kind_name(const HloInstruction& one) {
  std::string name{one.opcode};
  const std::string_view target = one.attribute("custom_call_target");
  if (one.opcode == "custom-call" && target.size() > 2)
    name.append(":").append(target.substr(1, target.size() - 2));
  return name;
}
const OpKind* hlo_kind(const HloInstruction& one) { return find_kind(Vocabulary::kHlo, kind_name(one)); }

/// A product of blocks with a scale each, which contracts the last dimensions, though its config lacks them.
bool block_scaled(const HloInstruction& one) {
  return one.attribute("custom_call_target").find("blockScaledDot") != std::string_view::npos;
}

/// Smallest number of operands of a formula of linear_algebra().
std::size_t inputs_of(Formula formula) {
  if (formula == Formula::kFusedAttention || formula == Formula::kFusedAttentionGradient) return 3;
  return formula == Formula::kFactorisation || formula == Formula::kFourier ? 1 : 2;
}

/// A product: of an instruction whose attributes name the contracted dimensions, or of a custom call whose
/// config does.
std::optional<std::int64_t> contraction(const HloInstruction& one, const WorkRule& rule,
                                        const std::vector<const TensorSpec*>& read) {
  const std::int64_t n = elements(one.shape);
  const TensorSpec& left = *read[0];
  if (rule.formula == Formula::kContraction)
    return times(times(2, n), sizes_of(left, hlo_numbers(one.attribute("lhs_contracting_dims"))));
  const std::string_view config = one.attribute("backend_config");
  const bool call = rule.formula == Formula::kContractionInConfig;
  auto contracted = hlo_numbers(call ? configured(config, "lhs_contracting_dimensions")
                                     : one.attribute("lhs_contracting_dims"));
  const auto ragged =
      hlo_numbers(call ? configured(config, "lhs_ragged_dimensions") : one.attribute("lhs_ragged_dims"));
  const bool stated =
      call && !configured(config, "lhs_contracting_dimensions").empty();  // An empty list counts.
  if (call && !stated && (config.find("onednn") != std::string_view::npos || block_scaled(one))) {
    const auto rank = static_cast<std::int64_t>(left.shape.size());
    contracted = {rank - (configured(config, "transpose_a") == "true" ? 2 : 1)};
  }
  if (contracted.empty() && !stated) return std::nullopt;
  const bool parted = !ragged.empty() && std::ranges::find(contracted, ragged[0]) != contracted.end();
  const std::int64_t groups = parted && read.size() > 2 ? capped::elements(read.back()->shape) : 1;
  const std::int64_t products =
      times(times(2, n), sizes_of(left, contracted)) / std::max<std::int64_t>(groups, 1);
  std::int64_t each = call ? epilogue(configured(config, "epilogue")) : 0;
  if (configured(config, "beta").find_first_of("123456789") != std::string_view::npos) ++each;
  return plus(products, times(n, each));
}

/// Convolutions of one instruction or custom call. In a custom call that makes a gradient, labels and window
/// are those of the forward pass.
std::int64_t convolution(const HloInstruction& one, Formula formula,
                         const std::vector<const TensorSpec*>& read) {
  const TensorSpec& made = first_tensor(one.shape);
  const std::string_view config = one.attribute("backend_config");
  if (formula == Formula::kConvolutionInputGradient) return convolution(one, {made, *read[1], *read[0]});
  if (formula == Formula::kConvolutionFilterGradient) return convolution(one, {*read[0], made, *read[1]});
  std::int64_t work = convolution(one, {*read[0], *read[1], made});
  if (work == 0 && one.opcode == "custom-call" && !made.shape.empty())  // oneDNN: channels are last.
    work = times(2, times(capped::elements(made.shape),
                          capped::elements(read[1]->shape) / std::max<std::int64_t>(made.shape.back(), 1)));
  if (one.opcode != "custom-call" || read.size() < 3) return work;
  const std::string_view active = configured(config, "activation_mode");  // After the bias, operand 2.
  return plus(work, times(elements(one.shape), active.empty() || active == "kNone" ? 1 : 2));
}

/// Work of products, convolutions, attention and factorisations; nothing if the text lacks what they need.
std::optional<std::int64_t> linear_algebra(const HloInstruction& one, const WorkRule& rule,
                                           const std::vector<const TensorSpec*>& read) {
  const auto last = [&](std::size_t k) { return read[k]->shape.empty() ? 1 : read[k]->shape.back(); };
  std::vector<const TensorSpec*> matrices;  // Older calls of LAPACK pass sizes first.
  std::ranges::copy_if(read, std::back_inserter(matrices),
                       [](const TensorSpec* tensor) { return tensor->shape.size() > 1; });
  switch (rule.formula) {
    case Formula::kConvolution:
    case Formula::kConvolutionInputGradient:
    case Formula::kConvolutionFilterGradient:
      return convolution(one, rule.formula, read);
    case Formula::kFusedAttention:
    case Formula::kFusedAttentionGradient: {
      const std::int64_t scores = scores_of(one.attribute("backend_config")), key = last(0), value = last(2);
      if (scores == 0) return std::nullopt;
      if (rule.formula == Formula::kFusedAttention) return times(scores, plus(times(2, plus(key, value)), 5));
      return times(scores, plus(times(2, plus(times(3, key), times(2, value))), 4));
    }
    case Formula::kFactorisation: {
      if (matrices.empty()) return std::nullopt;
      const auto& shape = matrices[0]->shape;
      const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
      const std::int64_t k = std::min(rows, columns), l = std::max(rows, columns);
      const std::int64_t count = k == 0 ? 0 : capped::elements(shape) / times(rows, columns);
      return times(count,
                   times(rule.amount, times(times(k, k), std::max<std::int64_t>(times(3, l) - k, 0))) / 6);
    }
    case Formula::kTriangularSolve:
      if (matrices.size() < 2) return std::nullopt;
      return times(capped::elements(matrices[1]->shape), matrices[0]->shape.back());
    case Formula::kFourier: {
      std::int64_t length = 1;
      for (const std::int64_t size : hlo_numbers(one.attribute("fft_length"))) length = times(length, size);
      const bool real = one.attribute("fft_type").find("RFFT") != std::string_view::npos;
      const std::int64_t n = std::max(elements(one.shape), capped::elements(read[0]->shape));
      const double each =
          (real ? 2.5 : 5) * std::log2(static_cast<double>(std::max<std::int64_t>(length, 1)));
      return static_cast<std::int64_t>(std::min(each * static_cast<double>(n), 1e18));
    }
    default:
      return contraction(one, rule, read);
  }
}

void include(HloWork::Count& sum, const HloWork::Count& one) {
  sum.dot = sum.dot || one.dot;
  sum.convolution = sum.convolution || one.convolution;
  sum.unknown = sum.unknown || one.unknown;
}

}  // namespace

HloWork::HloWork(const HloText& text, std::string_view where)
    : text_{text},
      where_{where},
      states_(text.computations.size(), State::kNew),
      counts_(text.computations.size()) {}

Error HloWork::fail(std::size_t line, std::string_view what) const {
  return invalid(fmt::format("{}: line {}", where_, line), what);
}

Result<HloWork::Count> HloWork::body(std::string_view name, std::size_t line) {
  const auto it = text_.by_name.find(name);
  if (it == text_.by_name.end()) return fail(line, "runs " + in_quotes(name) + ", which does not exist");
  if (states_[it->second] == State::kDone) return counts_[it->second];
  if (states_[it->second] == State::kOpen)
    return fail(line, "runs " + in_quotes(name) + ", which calls itself");
  if (depth_ >= kDeepestCall) return fail(line, "runs computations that are nested too deeply");
  ++depth_;
  states_[it->second] = State::kOpen;
  Count sum;
  for (const HloInstruction& one : text_.computations[it->second].instructions) {
    EMPLACE_TRY_ASSIGN(const auto count, of(text_.computations[it->second], one));
    sum.flops = plus(sum.flops, count.flops);
    include(sum, count);
  }
  --depth_;
  states_[it->second] = State::kDone;
  return counts_[it->second] = sum;
}

/// Work of the computations that an instruction names, each run once.
Result<HloWork::Count> HloWork::bodies(const HloInstruction& one) {
  Count sum;
  const bool branches = one.opcode == "conditional";
  for (const auto& [key, value] : one.attributes) {
    if (key != "calls" && key != "to_apply" && key != "condition" && key != "body" &&
        key != "branch_computations" && key != "true_computation" && key != "false_computation" &&
        key != "select" && key != "scatter" && key != "called_computations")
      continue;
    for (const std::string_view name : hlo_names(value)) {
      EMPLACE_TRY_ASSIGN(const auto count, body(name, one.line));
      sum.flops = branches ? std::max(sum.flops, count.flops) : plus(sum.flops, count.flops);
      include(sum, count);
    }
  }
  return sum;
}

Result<HloWork::Count> HloWork::of(const HloComputation& in, const HloInstruction& one) {
  auto count = bodies(one);
  if (!count) return count;
  EMPLACE_TRY_ASSIGN(const auto work, own(in, one, count->flops));
  count->flops = work.value_or(0);
  count->unknown = count->unknown || !work;
  const OpKind* kind = hlo_kind(one);
  count->dot = count->dot || (kind != nullptr && kind->op_class == OpClass::kMatmul);
  count->convolution = count->convolution || (kind != nullptr && kind->op_class == OpClass::kConv);
  return count;
}

/// Work of the instruction itself, given the work `applied` of its bodies run once; nothing if no rule knows.
Result<std::optional<std::int64_t>> HloWork::own(const HloComputation& in, const HloInstruction& one,
                                                 std::int64_t applied) {
  std::vector<const HloShape*> operands;
  for (const std::string_view name : one.operands) {
    const auto it = in.by_name.find(name);
    if (it == in.by_name.end()) return fail(one.line, "reads " + in_quotes(name) + ", which does not exist");
    operands.push_back(&in.instructions[it->second].shape);
  }
  const std::int64_t n = elements(one.shape), first = operands.empty() ? 0 : elements(*operands[0]);
  const OpKind* kind = hlo_kind(one);
  const WorkRule rule = kind == nullptr ? WorkRule{} : kind->work;
  if (const auto work = work_of_elements(rule, n, operands.size(), [&](std::size_t) { return first; }))
    return std::optional{floating(one.shape) ? *work : 0};
  switch (rule.formula) {
    case Formula::kContraction:
    case Formula::kRaggedContraction:
    case Formula::kContractionInConfig:
    case Formula::kConvolution:
    case Formula::kConvolutionInputGradient:
    case Formula::kConvolutionFilterGradient:
    case Formula::kFusedAttention:
    case Formula::kFusedAttentionGradient:
    case Formula::kFactorisation:
    case Formula::kTriangularSolve:
    case Formula::kFourier: {
      std::vector<const TensorSpec*> read;
      for (const HloShape* shape : operands) read.push_back(&first_tensor(*shape));
      if (read.size() < inputs_of(rule.formula)) return fail(one.line, "has too few operands");
      return linear_algebra(one, rule, read);
    }
    case Formula::kBody:
      return std::optional{applied};
    case Formula::kBodyPerTrip:
      return std::optional{times(applied, trips(one))};
    case Formula::kBodyPerReduced:
      return std::optional{times(std::max<std::int64_t>(first - n, 0), applied)};
    case Formula::kBodyPerWindow:
      return std::optional{times(times(n, window_area(one, n)), applied)};
    case Formula::kBodyPerWindowOfInput:
      return std::optional{times(times(first, window_area(one, n)), applied)};
    case Formula::kBodyPerUpdate:
      return std::optional{times(operands.empty() ? 0 : elements(*operands.back()), applied)};
    case Formula::kBodyPerOutput:
      return std::optional{times(n, applied)};
    default:
      return std::optional<std::int64_t>{};
  }
}

/// Trip count of a loop; 1 if it is unknown.
std::int64_t HloWork::trips(const HloInstruction& one) {
  const std::string_view config = one.attribute("backend_config");
  const std::size_t at = config.find("known_trip_count");
  const auto known = at == std::string_view::npos ? std::vector<std::int64_t>{}
                                                  : hlo_numbers(config.substr(at, config.find('}', at) - at));
  if (known.empty()) ++loops_once_;
  return known.empty() ? 1 : std::max<std::int64_t>(known[0], 0);
}

}  // namespace emplace
