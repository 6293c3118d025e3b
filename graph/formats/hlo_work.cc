#include "graph/formats/hlo_work.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text/words.h"
#include "graph/capped.h"

namespace emplace {
namespace {

constexpr int kDeepest = 64;
constexpr std::int64_t kMostPairs = 1 << 22;  // Of positions that are looked at one by one.

using capped::plus;
using capped::times;

std::int64_t elements(const HloShape& shape) {
  if (shape.tuple) return shape.parts.empty() ? 0 : elements(shape.parts[0]);
  return capped::elements(shape.tensor.shape);
}
bool floating(const HloShape& shape) {
  if (shape.tuple) return !shape.parts.empty() && floating(shape.parts[0]);
  const DType dtype = shape.tensor.dtype;
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

/// Operations per element of the output.
std::optional<std::int64_t> each(std::string_view opcode) {
  static const std::unordered_map<std::string_view, std::int64_t> kTable{{"add", 1},
                                                                         {"subtract", 1},
                                                                         {"multiply", 1},
                                                                         {"divide", 1},
                                                                         {"negate", 1},
                                                                         {"abs", 1},
                                                                         {"maximum", 1},
                                                                         {"minimum", 1},
                                                                         {"remainder", 1},
                                                                         {"floor", 1},
                                                                         {"ceil", 1},
                                                                         {"round-nearest-afz", 1},
                                                                         {"round-nearest-even", 1},
                                                                         {"clamp", 2},
                                                                         {"sqrt", 2},
                                                                         {"rsqrt", 2},
                                                                         {"cbrt", 4},
                                                                         {"exponential", 4},
                                                                         {"exponential-minus-one", 4},
                                                                         {"log", 4},
                                                                         {"log-plus-one", 4},
                                                                         {"logistic", 4},
                                                                         {"tanh", 5},
                                                                         {"power", 4},
                                                                         {"sine", 4},
                                                                         {"cosine", 4},
                                                                         {"tan", 4},
                                                                         {"erf", 8},
                                                                         {"atan2", 8},
                                                                         {"rng", 1},
                                                                         {"all-reduce", 1},
                                                                         {"all-reduce-start", 1},
                                                                         {"reduce-scatter", 1},
                                                                         {"cholesky", 1},
                                                                         {"triangular-solve", 1}};
  const auto it = kTable.find(opcode);
  return it == kTable.end() ? std::nullopt : std::optional{it->second};
}

bool free_of_work(std::string_view opcode) {
  static const std::unordered_set<std::string_view> kTypes{"parameter",
                                                           "constant",
                                                           "tuple",
                                                           "get-tuple-element",
                                                           "bitcast",
                                                           "bitcast-convert",
                                                           "reshape",
                                                           "transpose",
                                                           "broadcast",
                                                           "copy",
                                                           "convert",
                                                           "slice",
                                                           "dynamic-slice",
                                                           "dynamic-update-slice",
                                                           "concatenate",
                                                           "pad",
                                                           "reverse",
                                                           "gather",
                                                           "iota",
                                                           "select",
                                                           "compare",
                                                           "and",
                                                           "or",
                                                           "not",
                                                           "xor",
                                                           "sign",
                                                           "shift-left",
                                                           "shift-right-logical",
                                                           "shift-right-arithmetic",
                                                           "popcnt",
                                                           "count-leading-zeros",
                                                           "sort",
                                                           "after-all",
                                                           "token",
                                                           "add-dependency",
                                                           "optimization-barrier",
                                                           "all-gather",
                                                           "all-to-all",
                                                           "collective-permute",
                                                           "collective-broadcast",
                                                           "partition-id",
                                                           "replica-id",
                                                           "send",
                                                           "recv",
                                                           "send-done",
                                                           "recv-done",
                                                           "infeed",
                                                           "outfeed",
                                                           "domain",
                                                           "copy-start",
                                                           "copy-done",
                                                           "all-gather-start",
                                                           "all-gather-done",
                                                           "all-reduce-done",
                                                           "collective-permute-start",
                                                           "collective-permute-done",
                                                           "async-update",
                                                           "async-done",
                                                           "rng-bit-generator",
                                                           "rng-get-and-update-state",
                                                           "is-finite",
                                                           "real",
                                                           "imag",
                                                           "complex",
                                                           "dynamic-reshape",
                                                           "set-dimension-size",
                                                           "get-dimension-size",
                                                           "reduce-precision",
                                                           "stochastic-convert",
                                                           "opt-barrier",
                                                           "topk",
                                                           "fft",
                                                           "ragged-all-to-all"};
  return kTypes.contains(opcode);
}

/// A list "3x3" of a window; `otherwise` where it is missing.
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

/// Pairs of an output and a kernel position of one axis that meet an element of the input.
struct Axis {
  std::int64_t input = 0, kernel = 1, output = 0, stride = 1, low = 0, input_dilation = 1,
               kernel_dilation = 1;

  std::int64_t pairs() const {
    if (input <= 0 || kernel <= 0 || output <= 0 || input_dilation <= 0 || input > (std::int64_t{1} << 31) ||
        times(kernel, output) > kMostPairs)
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

std::int64_t convolution(const HloInstruction& one, const HloShape& input, const HloShape& kernel) {
  const std::string_view labels = one.attribute("dim_labels"), window = one.attribute("window");
  const std::size_t under = labels.find('_'), arrow = labels.find("->");
  if (under == std::string_view::npos || arrow == std::string_view::npos || arrow < under) return 0;
  const std::string_view in = labels.substr(0, under), weights = labels.substr(under + 1, arrow - under - 1),
                         out = labels.substr(arrow + 2);
  const auto size = [](const HloShape& shape, std::string_view names, char name) -> std::int64_t {
    const std::size_t at = names.find(name);
    return at < shape.tensor.shape.size() ? shape.tensor.shape[at] : 1;
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
  std::int64_t work = times(
      2, times(size(one.shape, out, 'b'), times(size(kernel, weights, 'i'), size(one.shape, out, 'f'))));
  for (std::size_t k = 0; k < axes && k < 10; ++k) {
    const char name = static_cast<char>('0' + k);
    work = times(work, Axis{size(input, in, name), size(kernel, weights, name), size(one.shape, out, name),
                            stride[k], pads[k], before[k], inside[k]}
                           .pairs());
  }
  return work;
}

}  // namespace

HloWork::HloWork(const HloText& text, std::string_view where)
    : text_{text},
      where_{where},
      states_(text.computations.size(), State::kNew),
      counts_(text.computations.size()) {}

Error HloWork::fail(std::size_t line, std::string_view what) const {
  return invalid(std::string{where_} + ": line " + std::to_string(line), what);
}

Result<HloWork::Count> HloWork::body(std::string_view name, std::size_t line) {
  const auto it = text_.by_name.find(name);
  if (it == text_.by_name.end())
    return fail(line, "runs '" + printable(name, 80) + "', which does not exist");
  if (states_[it->second] == State::kDone) return counts_[it->second];
  if (states_[it->second] == State::kOpen)
    return fail(line, "runs '" + printable(name, 80) + "', which runs itself");
  if (depth_ >= kDeepest) return fail(line, "runs computations that are nested too deeply");
  ++depth_;
  states_[it->second] = State::kOpen;
  Count sum;
  for (const HloInstruction& one : text_.computations[it->second].instructions) {
    const auto count = of(text_.computations[it->second], one);
    if (!count) return count;
    sum.flops = plus(sum.flops, count->flops);
    sum.dot = sum.dot || count->dot, sum.convolution = sum.convolution || count->convolution;
  }
  --depth_;
  states_[it->second] = State::kDone;
  return counts_[it->second] = sum;
}

/// What the computations that an instruction names do when they run once.
Result<HloWork::Count> HloWork::bodies(const HloInstruction& one) {
  Count sum;
  const bool branches = one.opcode == "conditional";
  for (const auto& [key, value] : one.attributes) {
    if (key != "calls" && key != "to_apply" && key != "condition" && key != "body" &&
        key != "branch_computations" && key != "true_computation" && key != "false_computation" &&
        key != "select" && key != "scatter" && key != "called_computations")
      continue;
    for (const std::string_view name : hlo_names(value)) {
      const auto count = body(name, one.line);
      if (!count) return count;
      sum.flops = branches ? std::max(sum.flops, count->flops) : plus(sum.flops, count->flops);
      sum.dot = sum.dot || count->dot, sum.convolution = sum.convolution || count->convolution;
    }
  }
  return sum;
}

Result<HloWork::Count> HloWork::of(const HloComputation& in, const HloInstruction& one) {
  auto count = bodies(one);
  if (!count) return count;
  const auto own = this->own(in, one, count->flops);
  if (!own) return own.error();
  count->flops = *own;
  count->dot = count->dot || one.opcode == "dot";
  count->convolution = count->convolution || one.opcode == "convolution";
  return count;
}

/// The instruction's work, given that of its bodies run once.
Result<std::int64_t> HloWork::own(const HloComputation& in, const HloInstruction& one, std::int64_t applied) {
  std::vector<const HloShape*> operands;
  for (const std::string_view name : one.operands) {
    const auto it = in.by_name.find(name);
    if (it == in.by_name.end())
      return fail(one.line, "reads '" + printable(name, 80) + "', which does not exist");
    operands.push_back(&in.instructions[it->second].shape);
  }
  const std::string_view opcode = one.opcode;
  const std::int64_t n = elements(one.shape), first = operands.empty() ? 0 : elements(*operands[0]);
  if (opcode == "dot") {
    std::int64_t work = times(2, n);
    for (const std::int64_t axis : hlo_numbers(one.attribute("lhs_contracting_dims")))
      if (!operands.empty() && axis >= 0 && static_cast<std::size_t>(axis) < operands[0]->tensor.shape.size())
        work = times(work, operands[0]->tensor.shape[static_cast<std::size_t>(axis)]);
    return work;
  }
  if (opcode == "convolution") {
    if (operands.size() < 2) return fail(one.line, "is a convolution without a kernel");
    const auto groups = hlo_numbers(one.attribute("batch_group_count"));
    return convolution(one, *operands[0], *operands[1]) / (groups.empty() || groups[0] < 1 ? 1 : groups[0]);
  }
  if (opcode == "fusion" || opcode == "call" || opcode == "conditional" || opcode == "async-start")
    return applied;
  if (opcode == "while") {
    const std::string_view config = one.attribute("backend_config");
    const std::size_t at = config.find("known_trip_count");
    const auto trips = at == std::string_view::npos
                           ? std::vector<std::int64_t>{}
                           : hlo_numbers(config.substr(at, config.find('}', at) - at));
    if (trips.empty()) ++loops_once_;
    return times(applied, trips.empty() ? 1 : std::max<std::int64_t>(trips[0], 0));
  }
  if (opcode == "reduce") return times(std::max<std::int64_t>(first - n, 0), applied);
  if (opcode == "reduce-window" || opcode == "select-and-scatter") {
    std::int64_t window = 1;
    for (const std::int64_t size : window_list(one.attribute("window"), "size", n == 0 ? 0 : 8, 1))
      window = times(window, size);
    return times(times(opcode == "reduce-window" ? n : first, window), applied);
  }
  if (opcode == "scatter") return times(operands.empty() ? 0 : elements(*operands.back()), applied);
  if (opcode == "map") return times(n, applied);
  if (const auto work = each(opcode)) return floating(one.shape) ? times(n, *work) : 0;
  if (free_of_work(opcode)) return 0;
  std::string_view target =
      opcode == "custom-call" ? one.attribute("custom_call_target") : std::string_view{};
  if (target.size() > 1) target = target.substr(1, target.size() - 2);
  if (target == "Sharding" || target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape" ||
      target == "AwsNeuronTransferWithStaticRing")
    return 0;
  uncounted_.insert("hlo::" + std::string{opcode} + (target.empty() ? "" : ":" + std::string{target}));
  return 0;
}

}  // namespace emplace
