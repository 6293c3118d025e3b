#include <tf_graphdef.pb.h>

#include <algorithm>
#include <map>

#include "graph/capped.h"

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

std::optional<std::int64_t> number(const Op& op, std::size_t k) {
  if (k >= op.values.size() || !op.values[k] || op.values[k]->size() != 1) return std::nullopt;
  return op.values[k]->front();
}

/// Entry `k` of an input's contents, if known.
std::optional<std::int64_t> entry(const Value& value, std::size_t k) {
  return value && k < value->size() ? std::optional{(*value)[k]} : std::nullopt;
}

/// Computes x[begin:end:stride] for one dimension of length `n`.
std::optional<Slice> slice_of(std::int64_t n, std::optional<std::int64_t> begin,
                              std::optional<std::int64_t> end, std::int64_t stride, bool from_start,
                              bool to_end) {
  if (stride == 0) return std::nullopt;
  const std::int64_t least = stride > 0 ? 0 : -1, most = stride > 0 ? n : n - 1;
  const auto clamped = [&](std::int64_t at) { return std::clamp(at < 0 ? at + n : at, least, most); };
  if (from_start) begin = stride > 0 ? 0 : n - 1;
  if (to_end) end = stride > 0 ? n : -1 - n;
  if (!begin || !end) return std::nullopt;
  const std::int64_t first = clamped(*begin), last = clamped(*end);
  const std::int64_t span = stride > 0 ? last - first : first - last, step = stride > 0 ? stride : -stride;
  return Slice{.begin = first, .size = span <= 0 ? 0 : (span - 1) / step + 1, .stride = stride};
}

MaybeShape strided(const Op& op) {
  const auto slices = strided_slice(op);
  if (!slices) return std::nullopt;
  Shape out;
  for (const Slice& one : *slices)
    if (!one.gone) out.push_back(one.size);
  return out;
}

/// Inputs `x`, `begin`, `size`; size -1 means the remainder.
MaybeShape slice(const Op& op) {
  const Shape& x = op.inputs[0];
  if (!op.values[2] || op.values[2]->size() != x.size()) return std::nullopt;
  Shape out;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::int64_t size = (*op.values[2])[k];
    const auto begin = entry(op.values[1], k);
    if (size == -1 && !begin) return std::nullopt;
    out.push_back(size == -1 ? x[k] - *begin : size);
  }
  return out;
}

/// Inputs start, limit, delta: integers.
MaybeShape range(const Op& op) {
  const auto start = number(op, 0), limit = number(op, 1), delta = number(op, 2);
  if (!start || !limit || !delta || *delta == 0) return std::nullopt;
  const std::int64_t span = *delta > 0 ? *limit - *start : *start - *limit;
  const std::int64_t step = *delta > 0 ? *delta : -*delta;
  return Shape{span <= 0 ? 0 : (span - 1) / step + 1};
}

MaybeShape tile(const Op& op) {
  Shape out = op.inputs[0];
  if (!op.values[1] || op.values[1]->size() != out.size()) return std::nullopt;
  for (std::size_t k = 0; k < out.size(); ++k)
    if (__builtin_mul_overflow(out[k], (*op.values[1])[k], &out[k])) return std::nullopt;
  return out;
}

MaybeShape one_hot(const Op& op) {
  const auto depth = number(op, 1);
  return depth ? insert(op.inputs[0], op.whole("axis", -1), *depth) : std::nullopt;
}

MaybeShape select(const Op& op) {
  const auto both = broadcast(op.inputs[1], op.inputs[2]);
  return both ? broadcast(op.inputs[0], *both) : std::nullopt;
}

MaybeShape gather_nd(const Op& op) {
  const Shape &params = op.inputs[0], &indices = op.inputs[1];
  if (indices.empty() || indices.back() > static_cast<std::int64_t>(params.size())) return std::nullopt;
  Shape out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), params.begin() + indices.back(), params.end());
  return out;
}

MaybeShape by_formula(const Op& op) {
  auto sizes = einsum(op.text("equation"), op.inputs);
  return sizes ? MaybeShape{std::move(sizes->result)} : std::nullopt;
}

/// Number of rows: the upper bound.
MaybeShape where(const Op& op) {
  std::int64_t n = 1;
  for (const std::int64_t dim : op.inputs[0])
    if (__builtin_mul_overflow(n, dim, &n)) return std::nullopt;
  return Shape{n, static_cast<std::int64_t>(op.inputs[0].size())};
}

MaybeShape length(const Op& op) { return op.inputs[0].size() == 1 ? MaybeShape{op.inputs[0]} : std::nullopt; }

MaybeShape depth_to_space(const Op& op) {
  const std::int64_t block = op.whole("block_size", 0);
  Shape out = op.inputs[0];
  if (out.size() != 4 || block < 1 || block > 1024 || op.text("data_format") == "NCHW") return std::nullopt;
  out[1] *= block, out[2] *= block, out[3] /= block * block;
  return out;
}

MaybeShape space_to_depth(const Op& op) {
  const std::int64_t block = op.whole("block_size", 0);
  Shape out = op.inputs[0];
  if (out.size() != 4 || block < 1 || block > 1024 || op.text("data_format") == "NCHW") return std::nullopt;
  out[1] /= block, out[2] /= block, out[3] *= block * block;
  return out;
}

/// Inputs x, blocks, paddings (to batch) or crops (from batch).
MaybeShape space_batch(const Op& op) {
  const bool to_batch = op.node.op() == "SpaceToBatchND";
  Shape out = op.inputs[0];
  if (!op.values[1] || !op.values[2] || op.values[2]->size() != 2 * op.values[1]->size() ||
      op.values[1]->size() + 1 > out.size())
    return std::nullopt;
  for (std::size_t k = 0; k < op.values[1]->size(); ++k) {
    const std::int64_t block = (*op.values[1])[k],
                       edges = (*op.values[2])[2 * k] + (*op.values[2])[2 * k + 1];
    if (block < 1 || block > 1 << 20) return std::nullopt;
    if (to_batch) {
      out[k + 1] = (out[k + 1] + edges) / block;
      out[0] *= block;
    } else {
      out[k + 1] = out[k + 1] * block - edges;
      out[0] /= block;
    }
    if (out[0] > kMaxSize || out[k + 1] > kMaxSize) return std::nullopt;
  }
  return out;
}

MaybeShape drawn(const Op& op) {
  const auto count = number(op, 1);
  if (!count || op.inputs[0].size() != 2) return std::nullopt;
  return Shape{op.inputs[0][0], *count};
}

constexpr NamedRule kSliceRules[]{
    {"StridedSlice", 4, strided},
    {"Slice", 3, slice},
    {"Range", 3, range},
    {"LinSpace", 3,
     [](const Op& op) -> MaybeShape {
       const auto n = number(op, 2);
       return n ? MaybeShape{Shape{*n}} : std::nullopt;
     }},
    {"Tile", 2, tile},
    {"OneHot", 2, one_hot},
    {"SelectV2", 3, select},
    {"GatherNd", 2, gather_nd},
    {"ResourceGatherNd", 2, gather_nd},
    {"Einsum", 1, by_formula},
    {"Where", 1, where},
    {"BroadcastTo", 2, contents_of<1>},
    {"BroadcastArgs", 2, length},
    {"VariableShape", 1,
     [](const Op& op) -> MaybeShape { return Shape{static_cast<std::int64_t>(op.inputs[0].size())}; }},
    {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth},
    {"SpaceToBatchND", 3, space_batch},
    {"BatchToSpaceND", 3, space_batch},
    {"RandomUniform", 1, contents_of<0>},
    {"RandomUniformInt", 1, contents_of<0>},
    {"RandomStandardNormal", 1, contents_of<0>},
    {"TruncatedNormal", 1, contents_of<0>},
    {"StatelessRandomUniform", 1, contents_of<0>},
    {"StatelessRandomUniformV2", 1, contents_of<0>},
    {"StatelessRandomUniformInt", 1, contents_of<0>},
    {"StatelessRandomNormal", 1, contents_of<0>},
    {"StatelessRandomNormalV2", 1, contents_of<0>},
    {"StatelessTruncatedNormal", 1, contents_of<0>},
    {"StatelessTruncatedNormalV2", 1, contents_of<0>},
    {"Multinomial", 2, drawn},
    {"StatelessMultinomial", 2, drawn},
};

}  // namespace

std::span<const NamedRule> slice_rules() { return kSliceRules; }

std::optional<std::vector<Slice>> strided_slice(const Op& op) {
  const Shape& x = op.inputs[0];
  if (op.inputs[1].size() != 1 || op.inputs[1][0] > 32) return std::nullopt;
  const auto given = static_cast<std::size_t>(op.inputs[1][0]);
  const auto mask = [&](const char* name, std::size_t k) { return (op.whole(name, 0) >> k & 1) != 0; };
  std::size_t named = 0;  // Dimensions of x that are indexed explicitly, without an ellipsis.
  bool ellipsis = false;
  for (std::size_t k = 0; k < given; ++k) {
    if (mask("ellipsis_mask", k) && !ellipsis) {
      ellipsis = true;
    } else if (!mask("new_axis_mask", k)) {
      ++named;
    }
  }
  if (named > x.size()) return std::nullopt;
  std::vector<Slice> slices;
  std::size_t at = 0;
  const auto whole = [&] {
    slices.push_back({.begin = 0, .size = x[at]});
    ++at;
  };
  for (std::size_t k = 0; k < given; ++k) {
    if (mask("ellipsis_mask", k)) {
      for (std::size_t left = x.size() - named; left > 0; --left) whole();
    } else if (mask("new_axis_mask", k)) {
      slices.push_back({.begin = 0, .size = 1, .fresh = true});
    } else if (at >= x.size()) {
      return std::nullopt;
    } else if (mask("shrink_axis_mask", k)) {
      auto begin = entry(op.values[1], k);
      if (begin && *begin < 0) *begin += x[at];
      slices.push_back({.begin = begin, .size = 1, .gone = true});
      ++at;
    } else {
      const auto one =
          slice_of(x[at], entry(op.values[1], k), entry(op.values[2], k), entry(op.values[3], k).value_or(1),
                   mask("begin_mask", k), mask("end_mask", k));
      if (!one) return std::nullopt;
      slices.push_back(*one);
      ++at;
    }
  }
  while (at < x.size()) whole();
  return slices;
}

std::optional<EinsumSizes> einsum(std::string_view equation, std::span<const Shape> inputs) {
  std::string clean;
  for (const char c : equation)
    if (c != ' ') clean += c;
  const std::size_t arrow = clean.find("->");
  if (arrow == std::string::npos || inputs.empty()) return std::nullopt;
  const std::string result = clean.substr(arrow + 2);
  clean.resize(arrow);
  std::map<char, std::int64_t> size;
  Shape dots;  // Dimensions that "..." represents.
  std::size_t begin = 0;
  for (const Shape& shape : inputs) {
    if (begin > clean.size()) return std::nullopt;
    const std::size_t end = std::min(clean.find(',', begin), clean.size());
    const std::string labels = clean.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t dotted = labels.find("...");
    const std::size_t named = labels.size() - (dotted == std::string::npos ? 0 : 3);
    if (named > shape.size() || (dotted == std::string::npos && named != shape.size())) return std::nullopt;
    for (std::size_t at = 0, k = 0; k < labels.size();) {
      if (k == dotted) {
        const std::size_t wide = shape.size() - named;
        const auto both = broadcast(dots, Shape(shape.begin() + static_cast<std::ptrdiff_t>(at),
                                                shape.begin() + static_cast<std::ptrdiff_t>(at + wide)));
        if (!both) return std::nullopt;
        dots = *both;
        at += wide, k += 3;
        continue;
      }
      const auto [it, fresh] = size.try_emplace(labels[k], shape[at]);
      if (!fresh && it->second != shape[at] && it->second != 1 && shape[at] != 1) return std::nullopt;
      it->second = std::max(it->second, shape[at]);
      ++at, ++k;
    }
  }
  if (begin <= clean.size()) return std::nullopt;
  EinsumSizes out;
  const auto multiply = [&](std::int64_t dim) { out.all = capped::times(out.all, dim); };
  for (const auto& [label, dim] : size) multiply(dim);
  for (const std::int64_t dim : dots) multiply(dim);
  for (std::size_t k = 0; k < result.size();) {
    if (result.compare(k, 3, "...") == 0) {
      out.result.insert(out.result.end(), dots.begin(), dots.end());
      k += 3;
    } else {
      const auto it = size.find(result[k++]);
      if (it == size.end()) return std::nullopt;
      out.result.push_back(it->second);
    }
  }
  return out;
}

}  // namespace emplace::tf
