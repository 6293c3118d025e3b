#include "graph/tensor_layout.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

namespace emplace {
namespace {

using nlohmann::json;
using Dims = std::vector<std::int64_t>;

std::int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>{});
}

/// One view op: its input, its output and its attributes.
struct View {
  const OpGraph& graph;
  OpId op;
  std::size_t output;
  json attrs;
  Dims shape;  // Shape of the output.

  std::int64_t number(const char* key, std::int64_t otherwise) const {
    const auto at = attrs.find(key);
    return at != attrs.end() && at->is_number_integer() ? at->get<std::int64_t>() : otherwise;
  }
  std::optional<Dims> numbers(const char* key) const {
    const auto at = attrs.find(key);
    if (at == attrs.end() || !at->is_array()) return std::nullopt;
    Dims values;
    for (const json& value : *at) {
      if (!value.is_number_integer()) return std::nullopt;
      values.push_back(value.get<std::int64_t>());
    }
    return values;
  }
  /// A dimension of `dims`; negative ones count from the end.
  std::optional<std::size_t> dim(const char* key, std::size_t dims, std::int64_t otherwise = 0) const {
    std::int64_t value = number(key, otherwise);
    if (value < 0) value += static_cast<std::int64_t>(dims);
    if (value < 0 || value >= static_cast<std::int64_t>(dims)) return std::nullopt;
    return static_cast<std::size_t>(value);
  }
};

/// Strides that represent the same elements in another shape; nothing if there are none.
std::optional<Dims> reshaped_strides(const StridedLayout& from, const Dims& shape) {
  Dims strides(shape.size(), 1);
  if (from.elements() == 0) return strides;
  // Split both shapes into runs of equal products; each run of the old shape must be contiguous.
  std::size_t i = 0, k = 0;
  while (i < from.shape.size() || k < shape.size()) {
    std::size_t i_end = i, k_end = k;
    std::int64_t old_count = 1, new_count = 1;
    do {
      if (k_end == shape.size() || (old_count <= new_count && i_end < from.shape.size())) {
        old_count *= from.shape[i_end++];
      } else {
        new_count *= shape[k_end++];
      }
    } while (old_count != new_count);
    std::optional<std::int64_t> inner;  // Stride of the innermost element of the run.
    std::int64_t expected = 0;
    for (std::size_t j = i_end; j-- > i;) {
      if (from.shape[j] == 1) continue;
      if (!inner)
        inner = from.strides[j];
      else if (from.strides[j] != expected)
        return std::nullopt;
      expected = from.strides[j] * from.shape[j];
    }
    std::int64_t stride = inner.value_or(1);
    for (std::size_t j = k_end; j-- > k;) {
      strides[j] = stride;
      stride *= shape[j];
    }
    i = i_end, k = k_end;
  }
  return strides;
}

/// Changes the shape of `layout` to one with as many elements.
void reshape(TensorLayout& layout, const Dims& shape) {
  StridedLayout& last = layout.steps.back();
  if (auto strides = reshaped_strides(last, shape)) {
    last.shape = shape;
    last.strides = std::move(*strides);
  } else {
    layout.steps.push_back(packed_layout(shape));
  }
}

void permute(StridedLayout& layout, const Dims& order) {
  StridedLayout out{layout.offset, {}, {}};
  for (const std::int64_t from : order) {
    out.shape.push_back(layout.shape[static_cast<std::size_t>(from)]);
    out.strides.push_back(layout.strides[static_cast<std::size_t>(from)]);
  }
  layout = std::move(out);
}

bool is_permutation(const Dims& order, std::size_t dims) {
  if (order.size() != dims) return false;
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < dims; ++i)
    if (sorted[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

/// Repeats along new leading dimensions and dimensions of size 1 (numpy's rule). Returns false if the shapes
/// do not match.
bool expand(StridedLayout& layout, const Dims& shape) {
  if (shape.size() < layout.shape.size()) return false;
  const std::size_t added = shape.size() - layout.shape.size();
  Dims strides(shape.size(), 0);
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.shape[i] == shape[added + i]) {
      strides[added + i] = layout.strides[i];
    } else if (layout.shape[i] != 1) {
      return false;
    }
  }
  layout.shape = shape;
  layout.strides = std::move(strides);
  return true;
}

/// Selects `start + k · step` along `dim`; the output's size is the count.
bool slice(StridedLayout& layout, const View& view, std::size_t dim, std::int64_t start, std::int64_t step) {
  const std::int64_t size = layout.shape[dim];
  if (start < 0) start += size;
  start = std::clamp<std::int64_t>(start, 0, size);
  if (view.shape.size() != layout.shape.size()) return false;
  const std::int64_t count = view.shape[dim];
  if (step < 1 || (count > 0 && start + (count - 1) * step >= size)) return false;
  for (std::size_t i = 0; i < layout.shape.size(); ++i)
    if (i != dim && layout.shape[i] != view.shape[i]) return false;
  layout.offset += start * layout.strides[dim];
  layout.shape[dim] = count;
  layout.strides[dim] *= step;
  return true;
}

bool select(StridedLayout& layout, std::size_t dim, std::int64_t at) {
  if (at < 0) at += layout.shape[dim];
  if (at < 0 || at >= layout.shape[dim]) return false;
  layout.offset += at * layout.strides[dim];
  layout.shape.erase(layout.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  layout.strides.erase(layout.strides.begin() + static_cast<std::ptrdiff_t>(dim));
  return true;
}

/// The start of output k of a split: the sum of the preceding sizes.
std::int64_t split_start(const View& view, std::size_t dim) {
  std::int64_t start = 0;
  for (std::size_t k = 0; k < view.output; ++k) {
    const auto shape = view.graph.shape(view.graph.output(view.op, k));
    if (dim < shape.size()) start += shape[dim];
  }
  return start;
}

/// ONNX's Slice has its starts in a constant that the graph does not store: assume the first dimension whose
/// size changes, from its start.
bool cut_from_start(StridedLayout& layout, const View& view) {
  if (view.shape.size() != layout.shape.size()) return false;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (view.shape[i] > layout.shape[i]) return false;
    layout.shape[i] = view.shape[i];
  }
  return true;
}

/// Applies a view. Returns false if the kind of view is unknown or does not match its input.
bool apply(TensorLayout& layout, const View& view) {
  const std::string_view type = view.graph.type_name(view.op);
  StridedLayout& last = layout.steps.back();
  const std::size_t dims = last.shape.size();
  if (type == "aten::t") {
    if (dims == 2) permute(last, {1, 0});
    return last.shape == view.shape;
  }
  if (type == "aten::transpose") {
    const auto a = view.dim("dim0", dims), b = view.dim("dim1", dims);
    if (!a || !b) return dims == 0;
    std::swap(last.shape[*a], last.shape[*b]);
    std::swap(last.strides[*a], last.strides[*b]);
    return last.shape == view.shape;
  }
  if (type == "aten::permute") {
    auto order = view.numbers("dims");
    if (!order) return false;
    for (std::int64_t& from : *order)
      if (from < 0) from += static_cast<std::int64_t>(dims);
    if (!is_permutation(*order, dims)) return false;
    permute(last, *order);
    return last.shape == view.shape;
  }
  if (type == "aten::slice") {
    const auto dim = view.dim("dim", dims);
    return dim && slice(last, view, *dim, view.number("start", 0), view.number("step", 1));
  }
  if (type == "aten::select") {
    const auto dim = view.dim("dim", dims);
    return dim && select(last, *dim, view.number("index", 0)) && last.shape == view.shape;
  }
  if (type == "aten::unbind") {
    const auto dim = view.dim("dim", dims);
    return dim && select(last, *dim, static_cast<std::int64_t>(view.output)) && last.shape == view.shape;
  }
  if (type == "aten::split" || type == "aten::split_with_sizes" || type == "aten::chunk") {
    const auto dim = view.dim("dim", dims);
    return dim && slice(last, view, *dim, split_start(view, *dim), 1);
  }
  if (type == "Split") {
    const auto dim = view.dim("axis", dims);
    return dim && slice(last, view, *dim, split_start(view, *dim), 1);
  }
  if (type == "aten::expand" || type == "Expand") return expand(last, view.shape);
  if (type == "Slice") return cut_from_start(last, view);
  // All other views with the same number of elements keep their order: view, reshape, squeeze, identity, …
  if (product(view.shape) != last.elements()) return false;
  reshape(layout, view.shape);
  return true;
}

}  // namespace

std::int64_t StridedLayout::elements() const { return product(shape); }

bool StridedLayout::is_packed() const { return *this == packed_layout(shape); }

StridedLayout packed_layout(std::vector<std::int64_t> shape) {
  StridedLayout layout{0, std::move(shape), {}};
  layout.strides.resize(layout.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    stride *= layout.shape[i];
  }
  return layout;
}

Result<TensorLayout> layout_in(const OpGraph& graph, TensorId tensor, TensorId base) {
  std::vector<TensorId> chain;  // Chain of views from the tensor back to the root of the base.
  for (TensorId at = tensor; at != base;) {
    const OpId op = graph.producer(at);
    if (!graph.is_view(op) || graph.inputs(op).empty())
      return invalid(quoted_op(graph, op), "is not a view of the requested tensor");
    chain.push_back(at);
    at = graph.inputs(op)[0];
  }
  const auto base_shape = graph.shape(base);
  TensorLayout layout{{packed_layout({base_shape.begin(), base_shape.end()})}};
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const OpId op = graph.producer(*at);
    const auto shape = graph.shape(*at);
    const View view{graph,
                    op,
                    index(*at) - index(graph.first_output(op)),
                    json::parse(graph.attrs_json(op), nullptr, false),
                    {shape.begin(), shape.end()}};
    if (!apply(layout, view))
      return Error{Errc::kUnsupported, quoted_op(graph, op) + ": no layout is known for this " +
                                           std::string{graph.type_name(op)}};
  }
  return layout;
}

}  // namespace emplace
