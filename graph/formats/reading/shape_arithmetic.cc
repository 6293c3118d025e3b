#include "graph/formats/reading/shape_arithmetic.h"

#include <algorithm>
#include <map>
#include <string>

#include "graph/capped.h"

namespace emplace {

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

MaybeShape broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const std::int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - k] = x == 1 ? y : x;
  }
  return out;
}

MaybeShape matrix_product(Shape a, Shape b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return std::nullopt;
  const std::int64_t rows = a[a.size() - 2], columns = b.back();
  a.resize(a.size() - 2), b.resize(b.size() - 2);
  auto out = broadcast(a, b);
  if (out && !row) out->push_back(rows);
  if (out && !column) out->push_back(columns);
  return out;
}

std::optional<std::vector<bool>> marked_axes(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<bool> marked(rank, false);
  for (const std::int64_t one : axes) {
    const auto axis = axis_of(one, rank);
    if (!axis) return std::nullopt;
    marked[*axis] = true;
  }
  return marked;
}

MaybeShape without_axes(const Shape& shape, std::span<const std::int64_t> axes, bool keep) {
  const auto gone = marked_axes(axes, shape.size());
  if (!gone) return std::nullopt;
  Shape out;
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (!(*gone)[k] || keep) out.push_back((*gone)[k] ? 1 : shape[k]);
  return out;
}

std::vector<std::int64_t> axes_of_one(const Shape& shape) {
  std::vector<std::int64_t> axes;
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (shape[k] == 1) axes.push_back(static_cast<std::int64_t>(k));
  return axes;
}

MaybeShape with_axis(Shape shape, std::int64_t along, std::int64_t size) {
  const auto axis = axis_of(along, shape.size() + 1);
  if (!axis) return std::nullopt;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis), size);
  return shape;
}

MaybeShape transposed(const Shape& shape, std::span<const std::int64_t> axes) {
  if (axes.size() != shape.size()) return std::nullopt;
  Shape out;
  for (const std::int64_t from : axes) {
    const auto axis = axis_of(from, shape.size());
    if (!axis) return std::nullopt;
    out.push_back(shape[*axis]);
  }
  return out;
}

MaybeShape tiled(Shape shape, std::span<const std::int64_t> times) {
  if (times.size() != shape.size()) return std::nullopt;
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (__builtin_mul_overflow(shape[k], times[k], &shape[k]) || shape[k] < 0) return std::nullopt;
  return shape;
}

MaybeShape gathered(Shape shape, std::int64_t along, const Shape& indices) {
  const auto axis = axis_of(along, shape.size());
  if (!axis) return std::nullopt;
  const auto at = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  shape.insert(at, indices.begin(), indices.end());
  return shape;
}

MaybeShape gathered_parts(const Shape& shape, const Shape& indices, std::int64_t batch) {
  if (indices.empty() || batch + indices.back() > static_cast<std::int64_t>(shape.size()))
    return std::nullopt;
  Shape out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), shape.begin() + batch + indices.back(), shape.end());
  return out;
}

std::optional<std::int64_t> steps_between(std::int64_t start, std::int64_t limit, std::int64_t delta) {
  std::int64_t reach = 0;
  if (delta == 0 || __builtin_sub_overflow(limit, start, &reach) || reach < -capped::kMax)
    return std::nullopt;
  if (reach == 0 || (reach > 0) != (delta > 0)) return 0;
  return reach / delta + (reach % delta != 0 ? 1 : 0);
}

namespace {

/// The labels of an einsum with their sizes.
struct Labels {
  std::map<char, std::pair<std::int64_t, int>> sizes;  ///< Size and number of occurrences.
  Shape dots;                                          ///< Dimensions that "..." represents.

  /// Adds the labels of one input. Returns false if its shape does not fit them.
  bool add(std::string_view labels, const Shape& shape) {
    const std::size_t dotted = labels.find("...");
    const std::size_t named = labels.size() - (dotted == std::string_view::npos ? 0 : 3);
    if (named > shape.size() || (dotted == std::string_view::npos && named != shape.size())) return false;
    auto at = shape.begin();
    for (std::size_t k = 0; k < labels.size();) {
      if (k == dotted) {
        const auto end = at + static_cast<std::ptrdiff_t>(shape.size() - named);
        const auto both = broadcast(dots, Shape(at, end));
        if (!both) return false;
        dots = *both;
        at = end, k += 3;
        continue;
      }
      auto& [size, count] = sizes[labels[k++]];
      if (count++ > 0 && size != *at && size != 1 && *at != 1) return false;
      size = std::max(size, *at++);
    }
    return true;
  }
};

}  // namespace

std::optional<EinsumSizes> einsum(std::string_view equation, std::span<const Shape> inputs) {
  std::string clean{equation};
  std::erase(clean, ' ');
  const std::size_t arrow = std::min(clean.find("->"), clean.size());
  std::string_view rest = std::string_view{clean}.substr(0, arrow);
  Labels labels;
  if (inputs.empty() || static_cast<std::size_t>(std::ranges::count(rest, ',')) + 1 != inputs.size())
    return std::nullopt;
  for (const Shape& shape : inputs) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (!labels.add(rest.substr(0, end), shape)) return std::nullopt;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::string result = clean.substr(std::min(arrow + 2, clean.size()));
  if (arrow == clean.size())
    for (const auto& [label, known] : labels.sizes)
      if (known.second == 1) result += label;
  EinsumSizes out{.result = {}, .all = capped::elements(labels.dots)};
  for (const auto& [label, known] : labels.sizes) out.all = capped::times(out.all, known.first);
  for (std::size_t k = 0; k < result.size();) {
    if (result.compare(k, 3, "...") == 0) {
      out.result.insert(out.result.end(), labels.dots.begin(), labels.dots.end());
      k += 3;
    } else {
      const auto it = labels.sizes.find(result[k++]);
      if (it == labels.sizes.end()) return std::nullopt;
      out.result.push_back(it->second.first);
    }
  }
  return out;
}

}  // namespace emplace
