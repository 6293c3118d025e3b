#include "graph/formats/tensorflow/tf_shape_rules.h"

#include <tf_graphdef.pb.h>

#include <algorithm>

namespace emplace::tf {

std::int64_t Op::whole(std::string_view name, std::int64_t otherwise) const {
  const AttrValue* attr = find(node, name);
  return attr == nullptr ? otherwise : attr->i();
}

bool Op::flag(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  return attr != nullptr && attr->b();
}

std::vector<std::int64_t> Op::list(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  if (attr == nullptr) return {};
  return {attr->list().i().begin(), attr->list().i().end()};
}

std::string_view Op::text(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  return attr == nullptr ? std::string_view{} : std::string_view{attr->s()};
}

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

MaybeShape matmul(const Op& op) {
  Shape a = op.inputs[0], b = op.inputs[1];
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  if (op.flag("transpose_a") || op.flag("adj_x")) std::swap(a.back(), a[a.size() - 2]);
  if (op.flag("transpose_b") || op.flag("adj_y")) std::swap(b.back(), b[b.size() - 2]);
  if (a.back() != b[b.size() - 2]) return std::nullopt;
  const std::int64_t rows = a[a.size() - 2], columns = b.back();
  a.resize(a.size() - 2), b.resize(b.size() - 2);
  auto out = broadcast(a, b);
  if (out) out->insert(out->end(), {rows, columns});
  return out;
}

MaybeShape windows(const Op& op, std::int64_t height, std::int64_t width, std::int64_t channels) {
  const Shape& x = op.inputs[0];
  const auto strides = op.list("strides");
  auto dilations = op.list("dilations");
  if (x.size() != 4 || strides.size() != 4) return std::nullopt;
  if (dilations.size() != 4) dilations.assign(4, 1);
  const bool first = op.text("data_format") == "NCHW";
  Shape out = x;
  out[first ? 1 : 3] = channels;
  for (const auto& [axis, size] :
       {std::pair<std::size_t, std::int64_t>{first ? 2 : 1, height}, {first ? 3 : 2, width}}) {
    const std::int64_t stride = strides[axis], dilation = dilations[axis];
    if (stride < 1 || dilation < 1 || stride > kMaxSize || dilation > 1 << 20 || size < 1 || size > 1 << 20)
      return std::nullopt;
    const std::int64_t reach = (size - 1) * dilation;
    if (op.text("padding") == "SAME") {
      out[axis] = (x[axis] + stride - 1) / stride;
    } else if (op.text("padding") == "VALID" && x[axis] > reach) {
      out[axis] = (x[axis] - reach - 1) / stride + 1;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

MaybeShape convolution(const Op& op) {
  const Shape& filter = op.inputs[1];
  if (filter.size() != 4) return std::nullopt;
  std::int64_t channels = filter[3];
  if (op.node.op() == "DepthwiseConv2dNative" && __builtin_mul_overflow(filter[2], filter[3], &channels))
    return std::nullopt;
  return windows(op, filter[0], filter[1], channels);
}

MaybeShape pool(const Op& op) {
  const auto size = op.list("ksize");
  if (size.size() != 4 || op.inputs[0].size() != 4) return std::nullopt;
  const bool first = op.text("data_format") == "NCHW";
  return windows(op, size[first ? 2 : 1], size[first ? 3 : 2], op.inputs[0][first ? 1 : 3]);
}

MaybeShape without(const Shape& shape, std::span<const std::int64_t> axes, bool keep) {
  std::vector<bool> gone(shape.size(), false);
  for (const std::int64_t one : axes) {
    const auto axis = axis_of(one, shape.size());
    if (!axis) return std::nullopt;
    gone[*axis] = true;
  }
  Shape out;
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (!gone[k] || keep) out.push_back(gone[k] ? 1 : shape[k]);
  return out;
}

MaybeShape reduce(const Op& op) {
  if (!op.values[1]) return std::nullopt;
  return without(op.inputs[0], *op.values[1], op.flag("keep_dims"));
}

MaybeShape squeeze(const Op& op) {
  auto axes = op.list("squeeze_dims");
  if (axes.empty())
    for (std::size_t k = 0; k < op.inputs[0].size(); ++k)
      if (op.inputs[0][k] == 1) axes.push_back(static_cast<std::int64_t>(k));
  return without(op.inputs[0], axes, false);
}

MaybeShape reshape(const Op& op) {
  if (!op.values[1]) return std::nullopt;
  Shape out = *op.values[1];
  std::int64_t all = 1, known = 1;
  for (const std::int64_t dim : op.inputs[0])
    if (__builtin_mul_overflow(all, dim, &all)) return std::nullopt;
  std::int64_t* open = nullptr;
  for (std::int64_t& dim : out) {
    if (dim == -1 && open == nullptr) {
      open = &dim;
    } else if (dim < 0 || __builtin_mul_overflow(known, dim, &known)) {
      return std::nullopt;
    }
  }
  if (open != nullptr && (known == 0 || all % known != 0)) return std::nullopt;
  if (open != nullptr) *open = all / known;
  return open != nullptr || known == all ? MaybeShape{out} : std::nullopt;
}

MaybeShape concat(const Op& op, std::size_t from, std::size_t to, std::int64_t along) {
  if (from >= to) return std::nullopt;
  Shape out = op.inputs[from];
  const auto axis = axis_of(along, out.size());
  if (!axis) return std::nullopt;
  for (std::size_t k = from + 1; k < to; ++k) {
    const Shape& next = op.inputs[k];
    if (next.size() != out.size()) return std::nullopt;
    for (std::size_t d = 0; d < out.size(); ++d)
      if (d != *axis && next[d] != out[d]) return std::nullopt;
    out[*axis] += next[*axis];
    if (out[*axis] > kMaxSize) return std::nullopt;
  }
  return out;
}

MaybeShape insert(Shape shape, std::int64_t along, std::int64_t size) {
  const auto axis = axis_of(along, shape.size() + 1);
  if (!axis) return std::nullopt;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis), size);
  return shape;
}

MaybeShape pad(const Op& op) {
  Shape out = op.inputs[0];
  if (!op.values[1] || op.values[1]->size() != 2 * out.size()) return std::nullopt;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] += (*op.values[1])[2 * k] + (*op.values[1])[2 * k + 1];
  return out;
}

MaybeShape transpose(const Op& op) {
  const Shape& x = op.inputs[0];
  if (!op.values[1] || op.values[1]->size() != x.size()) return std::nullopt;
  Shape out;
  for (const std::int64_t from : *op.values[1]) {
    const auto axis = axis_of(from, x.size());
    if (!axis) return std::nullopt;
    out.push_back(x[*axis]);
  }
  return out;
}

MaybeShape gather(const Op& op) {
  const bool has_axis = op.node.op() == "GatherV2";
  if (has_axis && (op.inputs.size() < 3 || !op.values[2] || op.values[2]->size() != 1)) return std::nullopt;
  Shape out = op.inputs[0];
  const auto axis = axis_of(has_axis ? op.values[2]->front() : 0, out.size());
  if (!axis) return std::nullopt;
  const auto at = out.erase(out.begin() + static_cast<std::ptrdiff_t>(*axis));
  out.insert(at, op.inputs[1].begin(), op.inputs[1].end());
  return out;
}

MaybeShape resize(const Op& op) {
  if (op.inputs[0].size() != 4 || !op.values[1] || op.values[1]->size() != 2) return std::nullopt;
  return Shape{op.inputs[0][0], (*op.values[1])[0], (*op.values[1])[1], op.inputs[0][3]};
}

}  // namespace emplace::tf
