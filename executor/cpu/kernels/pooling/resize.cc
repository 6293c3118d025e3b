/// Resizes images [N, C, H, W]: each pixel is one source pixel or a weighted sum of four.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {
namespace {

/// The two neighbours that a target coordinate reads along its dimension.
struct Tap {
  std::int64_t first, second;  ///< Offsets along the dimension [elements].
  float weight;                ///< Weight of the second neighbour; the first has the rest of 1.
};

enum class Rule : std::uint8_t { kHalfPixel, kAsymmetric, kAlignCorners, kPytorchHalfPixel };
enum class Nearest : std::uint8_t { kNone, kFloor, kCeil, kRoundPreferFloor, kRoundPreferCeil };

std::vector<Tap> taps_of(std::int64_t from, std::int64_t to, std::int64_t stride, Rule rule,
                         Nearest nearest) {
  std::vector<Tap> taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<double>(i);
    double x = 0;
    if (rule == Rule::kAsymmetric) x = at * scale;
    if (rule == Rule::kHalfPixel || (rule == Rule::kPytorchHalfPixel && to > 1)) x = (at + 0.5) * scale - 0.5;
    if (rule == Rule::kAlignCorners && to > 1) {
      x = at * static_cast<double>(from - 1) / static_cast<double>(to - 1);
    }
    const auto inside = [from](double k) {
      return static_cast<std::int64_t>(std::clamp(k, 0.0, static_cast<double>(from - 1)));
    };
    if (nearest != Nearest::kNone) {
      double k = std::floor(x);
      if (nearest == Nearest::kCeil) k = std::ceil(x);
      if (nearest == Nearest::kRoundPreferFloor) k = std::ceil(x - 0.5);
      if (nearest == Nearest::kRoundPreferCeil) k = std::floor(x + 0.5);
      taps.push_back({inside(k) * stride, inside(k) * stride, 0});
      continue;
    }
    x = std::max(x, 0.0);
    const std::int64_t first = inside(std::floor(x)), second = std::min(first + 1, from - 1);
    taps.push_back({first * stride, second * stride, static_cast<float>(x - static_cast<double>(first))});
  }
  return taps;
}

struct Resize {
  void operator()(const Pointers& memory) const {
    const auto* in = memory.input<float>(0);
    auto* out = memory.output<float>(0);
    if (backward) std::memset(out, 0, static_cast<std::size_t>(target.bytes()));
    for (std::int64_t n = 0; n < source.shape[0]; ++n) {
      for (std::int64_t c = 0; c < source.shape[1]; ++c) {
        const float* plane = in + n * source.strides[0] + c * source.strides[1];
        float* to = out + n * target.strides[0] + c * target.strides[1];
        backward ? spread(plane, to) : resize(plane, to);
      }
    }
  }

  void resize(const float* plane, float* to) const {
    for (const Tap& row : rows) {
      const float *upper = plane + row.first, *lower = plane + row.second;
      if (nearest) {
        for (const Tap& column : columns) *to++ = upper[column.first];
        continue;
      }
      for (const Tap& column : columns) {
        const float u = upper[column.first] + column.weight * (upper[column.second] - upper[column.first]);
        const float l = lower[column.first] + column.weight * (lower[column.second] - lower[column.first]);
        *to++ = u + row.weight * (l - u);
      }
    }
  }

  /// Backward: adds each gradient to the source pixels of its pixel.
  void spread(const float* plane, float* to) const {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const Tap &row = rows[r], &column = columns[c];
        const float g = plane[static_cast<std::int64_t>(r) * source.strides[2] +
                              static_cast<std::int64_t>(c) * source.strides[3]];
        const float upper = g * (1 - row.weight), lower = g * row.weight;
        to[row.first + column.first] += upper * (1 - column.weight);
        to[row.first + column.second] += upper * column.weight;
        to[row.second + column.first] += lower * (1 - column.weight);
        to[row.second + column.second] += lower * column.weight;
      }
    }
  }

  Operand source, target;
  std::vector<Tap> rows, columns;
  bool nearest = false, backward = false;
};

Made make(const Signature& signature, Rule rule, Nearest nearest, bool backward = false) {
  EMPLACE_TRY(expect(signature, {1}));
  const Operand &in = signature.inputs[0], &out = signature.outputs[0];
  if (in.dtype != DType::kF32 || out.dtype != DType::kF32) return unsupported(signature, "f32 only");
  if (in.shape.size() != 4 || out.shape.size() != 4 || in.shape[0] != out.shape[0] ||
      in.shape[1] != out.shape[1]) {
    return unsupported(signature, "expected images [N, C, H, W] with equal samples and channels");
  }
  const Operand &small = backward ? out : in, &large = backward ? in : out;
  if (large.elements() > 0 && small.elements() == 0)
    return unsupported(signature, "empty images are not supported");
  return kernel_of(Resize{in, out, taps_of(small.shape[2], large.shape[2], small.strides[2], rule, nearest),
                          taps_of(small.shape[3], large.shape[3], small.strides[3], rule, nearest),
                          nearest != Nearest::kNone, backward});
}

Made resize(const Signature& signature) {
  Attributes attributes{signature};
  const std::string mode = attributes.word("mode", "nearest");
  const std::string rule = attributes.word("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = attributes.word("nearest_mode", "round_prefer_floor");
  if (attributes.fault()) return *attributes.fault();
  const std::pair<std::string_view, Rule> rules[] = {{"half_pixel", Rule::kHalfPixel},
                                                     {"asymmetric", Rule::kAsymmetric},
                                                     {"align_corners", Rule::kAlignCorners},
                                                     {"pytorch_half_pixel", Rule::kPytorchHalfPixel}};
  const std::pair<std::string_view, Nearest> roundings[] = {
      {"floor", Nearest::kFloor},
      {"ceil", Nearest::kCeil},
      {"round_prefer_floor", Nearest::kRoundPreferFloor},
      {"round_prefer_ceil", Nearest::kRoundPreferCeil}};
  if (mode != "nearest" && mode != "linear") return unsupported(signature, "mode " + mode);
  for (const auto& [name, known] : rules) {
    if (name != rule) continue;
    if (mode == "linear") return make(signature, known, Nearest::kNone);
    for (const auto& [word, nearest] : roundings) {
      if (word == rounding) return make(signature, known, nearest);
    }
    return unsupported(signature, "nearest_mode " + rounding);
  }
  return unsupported(signature, "coordinate_transformation_mode " + rule);
}

template <bool backward>
Made bilinear(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const bool corners,
                     read(signature, [](auto& of) { return of.flag("align_corners", false); }));
  return make(signature, corners ? Rule::kAlignCorners : Rule::kHalfPixel, Nearest::kNone, backward);
}
template <bool backward>
Made nearest(const Signature& signature) {
  return make(signature, Rule::kAsymmetric, Nearest::kFloor, backward);
}

constexpr KernelEntry kEntries[] = {
    {"Resize", resize},
    {"aten::upsample_bilinear2d", bilinear<false>},
    {"aten::upsample_bilinear2d_backward", bilinear<true>},
    {"aten::upsample_nearest2d", nearest<false>},
    {"aten::upsample_nearest2d_backward", nearest<true>},
};

}  // namespace

std::span<const KernelEntry> resize_kernels() { return kEntries; }

}  // namespace emplace::cpu
