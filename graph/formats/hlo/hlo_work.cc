#include "graph/formats/hlo/hlo_work.h"

#include <fmt/core.h>

#include <algorithm>
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

std::int64_t elements(const HloShape& shape) {
  if (shape.tuple) return shape.parts.empty() ? 0 : elements(shape.parts[0]);
  return capped::elements(shape.tensor.shape);
}
bool floating(const HloShape& shape) {
  if (shape.tuple) return !shape.parts.empty() && floating(shape.parts[0]);
  return is_floating(shape.tensor.dtype);
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

std::int64_t window_area(const HloInstruction& one, std::int64_t outputs) {
  std::int64_t area = 1;
  for (const std::int64_t size : window_list(one.attribute("window"), "size", outputs == 0 ? 0 : 8, 1))
    area = times(area, size);
  return area;
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
    sum.dot = sum.dot || count.dot, sum.convolution = sum.convolution || count.convolution;
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
      sum.dot = sum.dot || count.dot, sum.convolution = sum.convolution || count.convolution;
    }
  }
  return sum;
}

Result<HloWork::Count> HloWork::of(const HloComputation& in, const HloInstruction& one) {
  auto count = bodies(one);
  if (!count) return count;
  EMPLACE_TRY_ASSIGN(count->flops, this->own(in, one, count->flops));
  count->dot = count->dot || one.opcode == "dot";
  count->convolution = count->convolution || one.opcode == "convolution";
  return count;
}

/// Work of the instruction itself, given the work `applied` of its bodies run once.
Result<std::int64_t> HloWork::own(const HloComputation& in, const HloInstruction& one, std::int64_t applied) {
  std::vector<const HloShape*> operands;
  for (const std::string_view name : one.operands) {
    const auto it = in.by_name.find(name);
    if (it == in.by_name.end()) return fail(one.line, "reads " + in_quotes(name) + ", which does not exist");
    operands.push_back(&in.instructions[it->second].shape);
  }
  const std::string_view opcode = one.opcode;
  const std::int64_t n = elements(one.shape), first = operands.empty() ? 0 : elements(*operands[0]);
  std::string_view target =
      opcode == "custom-call" ? one.attribute("custom_call_target") : std::string_view{};
  if (target.size() > 1) target = target.substr(1, target.size() - 2);
  const OpKind* kind = opcode == "custom-call"
                           ? find_kind(Vocabulary::kHlo, "custom-call:" + std::string{target})
                           : find_kind(Vocabulary::kHlo, opcode);
  const WorkRule rule = kind == nullptr ? WorkRule{} : kind->work;
  if (const auto work = work_of_elements(rule, n, operands.size(), [&](std::size_t) { return first; }))
    return floating(one.shape) ? *work : 0;
  switch (rule.formula) {
    case Formula::kContraction: {
      std::int64_t work = times(2, n);
      for (const std::int64_t axis : hlo_numbers(one.attribute("lhs_contracting_dims")))
        if (!operands.empty() && axis >= 0 &&
            static_cast<std::size_t>(axis) < operands[0]->tensor.shape.size())
          work = times(work, operands[0]->tensor.shape[static_cast<std::size_t>(axis)]);
      return work;
    }
    case Formula::kConvolution: {
      if (operands.size() < 2) return fail(one.line, "is a convolution without a kernel");
      const auto groups = hlo_numbers(one.attribute("batch_group_count"));
      return convolution(one, *operands[0], *operands[1]) / (groups.empty() || groups[0] < 1 ? 1 : groups[0]);
    }
    case Formula::kBody:
      return applied;
    case Formula::kBodyPerTrip:
      return times(applied, trips(one));
    case Formula::kBodyPerReduced:
      return times(std::max<std::int64_t>(first - n, 0), applied);
    case Formula::kBodyPerWindow:
      return times(times(n, window_area(one, n)), applied);
    case Formula::kBodyPerWindowOfInput:
      return times(times(first, window_area(one, n)), applied);
    case Formula::kBodyPerUpdate:
      return times(operands.empty() ? 0 : elements(*operands.back()), applied);
    case Formula::kBodyPerOutput:
      return times(n, applied);
    default:
      uncounted_.insert("hlo::" + std::string{opcode} + (target.empty() ? "" : ":" + std::string{target}));
      return 0;
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
