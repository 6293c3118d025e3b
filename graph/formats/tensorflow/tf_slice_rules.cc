#include <tf_graphdef.pb.h>

#include <algorithm>

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

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
  const auto start = op.number(0), limit = op.number(1), delta = op.number(2);
  const auto length = start && limit && delta ? steps_between(*start, *limit, *delta) : std::nullopt;
  return length ? MaybeShape{Shape{*length}} : std::nullopt;
}

MaybeShape tile(const Op& op) { return op.values[1] ? tiled(op.inputs[0], *op.values[1]) : std::nullopt; }

MaybeShape one_hot(const Op& op) {
  const auto depth = op.number(1);
  return depth ? with_axis(op.inputs[0], op.whole("axis", -1), *depth) : std::nullopt;
}

MaybeShape select(const Op& op) {
  const auto both = broadcast(op.inputs[1], op.inputs[2]);
  return both ? broadcast(op.inputs[0], *both) : std::nullopt;
}

MaybeShape gather_nd(const Op& op) { return gathered_parts(op.inputs[0], op.inputs[1]); }

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

/// Moves a block of `block_size` · `block_size` pixels between depth and space.
template <bool to_space>
MaybeShape block_moved(const Op& op) {
  const std::int64_t block = op.whole("block_size", 0);
  Shape out = op.inputs[0];
  if (out.size() != 4 || block < 1 || block > 1024 || op.text("data_format") == "NCHW") return std::nullopt;
  if (to_space) return Shape{out[0], out[1] * block, out[2] * block, out[3] / (block * block)};
  return Shape{out[0], out[1] / block, out[2] / block, out[3] * block * block};
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
  const auto count = op.number(1);
  if (!count || op.inputs[0].size() != 2) return std::nullopt;
  return Shape{op.inputs[0][0], *count};
}

constexpr NamedRule kSliceRules[]{
    {"StridedSlice", 4, strided},
    {"Slice", 3, slice},
    {"Range", 3, range},
    {"LinSpace", 3,
     [](const Op& op) -> MaybeShape {
       const auto n = op.number(2);
       return n ? MaybeShape{Shape{*n}} : std::nullopt;
     }},
    {"Tile", 2, tile},
    {"OneHot", 2, one_hot},
    {"SelectV2", 3, select},
    {"GatherNd ResourceGatherNd", 2, gather_nd},
    {"Einsum", 1, by_formula},
    {"Where", 1, where},
    {"BroadcastTo", 2, contents_of<1>},
    {"BroadcastArgs", 2, length},
    {"VariableShape", 1,
     [](const Op& op) -> MaybeShape { return Shape{static_cast<std::int64_t>(op.inputs[0].size())}; }},
    {"DepthToSpace", 1, block_moved<true>},
    {"SpaceToDepth", 1, block_moved<false>},
    {"SpaceToBatchND BatchToSpaceND", 3, space_batch},
    {"RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal StatelessRandomUniform "
     "StatelessRandomUniformV2 StatelessRandomUniformInt StatelessRandomNormal StatelessRandomNormalV2 "
     "StatelessTruncatedNormal StatelessTruncatedNormalV2",
     1, contents_of<0>},
    {"Multinomial StatelessMultinomial", 2, drawn},
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

}  // namespace emplace::tf
