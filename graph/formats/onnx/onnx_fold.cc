#include <onnx.pb.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "graph/formats/onnx/onnx_infer.h"
#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/reading/rule_rows.h"

namespace emplace::onnx_io {
namespace {

constexpr std::int64_t kMaxValues = 4096;

bool is_real(int element) {
  return element == Proto::FLOAT || element == Proto::DOUBLE || element == Proto::FLOAT16 ||
         element == Proto::BFLOAT16;
}

/// Contents as real numbers, whatever the element type; nothing if unknown.
std::optional<std::vector<double>> contents(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (value->real) return value->real;
  if (!value->whole) return std::nullopt;
  return std::vector<double>{value->whole->begin(), value->whole->end()};
}

/// Sets the contents of output 0, converted to its element type.
void put(Inference& op, const std::vector<double>& numbers) {
  Value* out = op.output(0);
  if (out == nullptr || !out->shape ||
      elements_or_max(*out->shape) != static_cast<std::int64_t>(numbers.size()))
    return;
  if (is_real(out->element)) {
    out->real = numbers;
    return;
  }
  std::vector<std::int64_t> whole;
  for (const double number : numbers) {
    if (!(std::abs(number) < 9e18)) return;
    whole.push_back(static_cast<std::int64_t>(number));
  }
  out->whole = std::move(whole);
}

/// Passes the contents on in another shape or element type.
void pass_on(Inference& op) {
  const Value *in = op.input(0), *out = op.output(0);
  if (in == nullptr || out == nullptr) return;
  if (in->whole && !is_real(out->element) && out->shape &&
      elements_or_max(*out->shape) == static_cast<std::int64_t>(in->whole->size())) {
    op.output(0)->whole = in->whole;  // The conversion below would lose digits of large numbers.
  } else if (const auto numbers = contents(in)) {
    put(op, *numbers);
  }
}

/// Combines operands of equal length, or one number with all elements of the other.
template <auto pair>
void combine(Inference& op) {
  const auto a = contents(op.input(0)), b = contents(op.input(1));
  if (op.num_inputs() != 2 || !a || !b || a->empty() || b->empty()) return;
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return;
  std::vector<double> out;
  for (std::size_t k = 0; k < std::max(a->size(), b->size()); ++k)
    out.push_back(pair((*a)[a->size() == 1 ? 0 : k], (*b)[b->size() == 1 ? 0 : k]));
  put(op, out);
}

/// Integer division rounds towards zero.
void divide(Inference& op) {
  if (is_real(op.element(0))) return combine<std::divides<double>{}>(op);
  combine<[](double a, double b) { return b == 0 ? 0 : std::trunc(a / b); }>(op);
}

/// Applies a function to every element.
template <auto function>
void each(Inference& op) {
  auto numbers = contents(op.input(0));
  if (!numbers) return;
  for (double& number : *numbers) number = function(number);
  put(op, *numbers);
}

void fold_concat(Inference& op) {
  std::vector<double> out;
  for (std::size_t k = 0; k < op.num_inputs(); ++k) {
    const auto part = contents(op.input(k));
    if (!part || op.shape(k) == nullptr || op.shape(k)->size() != 1) return;
    out.insert(out.end(), part->begin(), part->end());
  }
  put(op, out);
}

/// Selects elements of a vector.
void fold_gather(Inference& op) {
  const auto data = contents(op.input(0));
  const auto* indices = op.whole(1);
  if (!data || indices == nullptr || op.shape(0) == nullptr || op.shape(0)->size() != 1) return;
  std::vector<double> out;
  for (const std::int64_t one : *indices) {
    const auto at = axis_of(one, data->size());
    if (!at) return;
    out.push_back((*data)[*at]);
  }
  put(op, out);
}

/// Selects rows of a tensor, with steps of either sign.
void fold_slice(Inference& op) {
  const auto data = contents(op.input(0));
  const auto starts = op.list_or_input("starts", 1), steps = op.list_or_input("steps", 4);
  const auto axes = op.list_or_input("axes", 3);
  const Shape* shape = op.shape(0);
  const Value* out = op.output(0);
  if (!data || !starts || !steps || !axes || starts->size() != 1 || shape == nullptr || shape->empty() ||
      (!axes->empty() && axes->front() != 0) || !out->shape || out->shape->empty())
    return;
  const std::int64_t step = steps->empty() ? 1 : steps->front(), size = shape->front();
  const std::int64_t row = size == 0 ? 0 : static_cast<std::int64_t>(data->size()) / size;
  std::int64_t at = starts->front() < 0 ? std::max(starts->front(), -size - 1) + size : starts->front();
  at = std::clamp<std::int64_t>(at, 0, step < 0 ? std::max<std::int64_t>(size - 1, 0) : size);
  std::vector<double> numbers;
  for (std::int64_t k = 0; k < out->shape->front() && at >= 0 && at < size; ++k, at += step) {
    const auto begin = data->begin() + at * row;
    numbers.insert(numbers.end(), begin, begin + row);
  }
  put(op, numbers);
}

/// Transposes a matrix.
void fold_transpose(Inference& op) {
  const auto data = contents(op.input(0));
  const Shape* shape = op.shape(0);
  const auto perm = op.list("perm");
  if (!data || shape == nullptr || shape->size() > 2) return;
  if (shape->size() < 2 || (!perm.empty() && perm[0] == 0)) return pass_on(op);
  const auto rows = static_cast<std::size_t>((*shape)[0]), columns = static_cast<std::size_t>((*shape)[1]);
  std::vector<double> numbers;
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t r = 0; r < rows; ++r) numbers.push_back((*data)[r * columns + c]);
  put(op, numbers);
}

void fold_split(Inference& op) {
  const auto* data = op.whole(0);
  if (data == nullptr || op.shape(0) == nullptr || op.shape(0)->size() != 1) return;
  std::size_t at = 0;
  for (std::size_t k = 0; k < op.num_outputs(); ++k) {
    Value* out = op.output(k);
    if (!out->shape || out->shape->size() != 1) return;
    const auto size = static_cast<std::size_t>(out->shape->front());
    if (size > data->size() - at) return;
    const auto begin = data->begin() + static_cast<std::ptrdiff_t>(at);
    out->whole.emplace(begin, begin + static_cast<std::ptrdiff_t>(size));
    at += size;
  }
}

void fold_where(Inference& op) {
  const auto* condition = op.whole(0);
  const auto a = contents(op.input(1)), b = contents(op.input(2));
  if (condition == nullptr || !a || !b) return;
  const std::size_t n = std::max({condition->size(), a->size(), b->size()});
  std::vector<double> out;
  for (std::size_t k = 0; k < n; ++k) {
    const auto pick = [&](const auto& list) { return list.size() == 1 ? 0 : k; };
    for (const std::size_t size : {condition->size(), a->size(), b->size()})
      if (size != 1 && size != n) return;
    out.push_back((*condition)[pick(*condition)] != 0 ? (*a)[pick(*a)] : (*b)[pick(*b)]);
  }
  put(op, out);
}

void fold_range(Inference& op) {
  const Value* out = op.output(0);
  if (op.whole(0) == nullptr || op.whole(2) == nullptr || !out->shape) return;
  std::vector<double> numbers;
  for (std::int64_t k = 0; k < out->shape->front(); ++k)
    numbers.push_back(static_cast<double>(op.whole(0)->front() + k * op.whole(2)->front()));
  put(op, numbers);
}

/// Fills the output with one number.
void fill(Inference& op, double number) {
  const Value* out = op.output(0);
  if (out->shape)
    put(op, std::vector<double>(static_cast<std::size_t>(elements_or_max(*out->shape)), number));
}

void fold_constant_of_shape(Inference& op) {
  const auto* value = op.attribute("value");
  double number = 0;
  if (value != nullptr) {
    const auto whole = whole_numbers(value->t());
    const auto real = real_numbers(value->t());
    if (whole && whole->size() == 1)
      number = static_cast<double>(whole->front());
    else if (real && real->size() == 1)
      number = real->front();
    else
      return;
  }
  fill(op, number);
}

void fold_constant(Inference& op) {
  Value& out = *op.output(0);
  if (const auto* value = op.attribute("value")) {
    out.whole = whole_numbers(value->t());
    out.real = real_numbers(value->t());
  } else if (const auto* one = op.attribute("value_int")) {
    out.whole = {one->i()};
  } else if (const auto* real = op.attribute("value_float")) {
    out.real = {static_cast<double>(real->f())};
  } else if (const auto* list = op.attribute("value_ints")) {
    out.whole.emplace(list->ints().begin(), list->ints().end());
  } else if (const auto* reals = op.attribute("value_floats")) {
    out.real.emplace(reals->floats().begin(), reals->floats().end());
  }
}

/// Reduces all elements to one.
template <auto pair>
void reduce(Inference& op) {
  const auto numbers = contents(op.input(0));
  const Value* out = op.output(0);
  if (!numbers || numbers->empty() || elements_or_max(*out->shape) != 1) return;
  put(op, {std::accumulate(numbers->begin() + 1, numbers->end(), numbers->front(), pair)});
}

void fold_shape(Inference& op) {
  if (op.shape(0) == nullptr) return;
  const auto rank = static_cast<std::int64_t>(op.shape(0)->size());
  const std::int64_t start = op.number("start", 0);
  const auto begin = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
  const auto first = op.shape(0)->begin() + begin;
  op.output(0)->whole.emplace(first, first + std::min(op.output(0)->shape->front(), rank - begin));
}

void fold_size(Inference& op) {
  if (op.shape(0) != nullptr) op.output(0)->whole = {elements_or_max(*op.shape(0))};
}

void fold_expand(Inference& op) {
  if (const auto one = contents(op.input(0)); one && one->size() == 1) fill(op, one->front());
}

constexpr auto kLeast = [](double a, double b) { return std::min(a, b); };
constexpr auto kMost = [](double a, double b) { return std::max(a, b); };

struct FoldRow {
  std::string_view types;
  void (*fold)(Inference&);
};
constexpr FoldRow kFolds[]{
    {"Add", combine<std::plus<double>{}>},
    {"Sub", combine<std::minus<double>{}>},
    {"Mul", combine<std::multiplies<double>{}>},
    {"Div", divide},
    {"Min", combine<kLeast>},
    {"Max", combine<kMost>},
    {"Pow", combine<[](double a, double b) { return std::pow(a, b); }>},
    {"Mod", combine<[](double a, double b) { return b == 0 ? 0 : a - std::floor(a / b) * b; }>},
    {"Equal", combine<std::equal_to<double>{}>},
    {"Greater", combine<std::greater<double>{}>},
    {"GreaterOrEqual", combine<std::greater_equal<double>{}>},
    {"Less", combine<std::less<double>{}>},
    {"LessOrEqual", combine<std::less_equal<double>{}>},
    {"And", combine<std::logical_and<double>{}>},
    {"Or", combine<std::logical_or<double>{}>},
    {"Neg", each<std::negate<double>{}>},
    {"Abs", each<[](double a) { return std::abs(a); }>},
    {"Floor", each<[](double a) { return std::floor(a); }>},
    {"Ceil", each<[](double a) { return std::ceil(a); }>},
    {"Round", each<[](double a) { return std::nearbyint(a); }>},
    {"Sqrt", each<[](double a) { return std::sqrt(a); }>},
    {"Not", each<std::logical_not<double>{}>},
    {"Identity Cast Reshape Squeeze Unsqueeze Flatten", pass_on},
    {"ReduceProd", reduce<std::multiplies<double>{}>},
    {"ReduceSum", reduce<std::plus<double>{}>},
    {"ReduceMax", reduce<kMost>},
    {"ReduceMin", reduce<kLeast>},
    {"Constant", fold_constant},
    {"Shape", fold_shape},
    {"Size", fold_size},
    {"Concat", fold_concat},
    {"Gather", fold_gather},
    {"Slice", fold_slice},
    {"Transpose", fold_transpose},
    {"Split", fold_split},
    {"Where", fold_where},
    {"Range", fold_range},
    {"ConstantOfShape", fold_constant_of_shape},
    {"Expand", fold_expand},
};

}  // namespace

void fold(Inference& op, std::string_view kind) {
  const Value* out = op.output(0);
  if (out == nullptr || !out->shape || elements_or_max(*out->shape) > kMaxValues) return;
  static const RowsByType<FoldRow> kByType{kFolds};
  if (const FoldRow* known = kByType.find(kind)) known->fold(op);
}

}  // namespace emplace::onnx_io
