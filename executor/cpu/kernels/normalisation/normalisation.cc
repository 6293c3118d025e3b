// Batch and layer normalisation and their gradients. Frameworks store 1 / √(variance + ε), oneDNN stores
// the variance; each is computed from the other. Backward, ε is included already.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "executor/cpu/kernels/normalisation/batch_norm.h"
#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"

namespace emplace::cpu {
namespace {

using onednn::Normalisation;
using Places = NormalisationPlaces;
constexpr std::size_t kNone = Places::kNone;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
std::size_t list_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

/// Source, … → target (, mean, inverse deviation). The scratch has space for statistics that are not outputs
/// of the op.
Made forward_kernel(const onednn::Program& program, Places places, bool fixed_statistics,
                    std::int64_t statistics, float epsilon) {
  const std::size_t room = padded(list_bytes(statistics)), bytes = 2 * room + program.scratch_bytes();
  return kernel_of(
      [=](const Pointers& memory) {
        std::array<const std::byte*, 5> taken{memory.inputs[0]};
        std::size_t count = 1;
        const auto take = [&](std::size_t place) {
          if (place != kNone) taken[count++] = memory.inputs[place];
        };
        if (fixed_statistics) take(places.mean), take(places.variance);
        take(places.scale);
        take(places.shift);
        const auto& outputs = memory.outputs;
        const bool outputs_statistics = outputs.size() == 3;
        const std::array<std::byte*, 3> given{outputs[0], outputs_statistics ? outputs[1] : memory.scratch,
                                              outputs_statistics ? outputs[2] : memory.scratch + room};
        program.run(
            {{taken.data(), count}, {given.data(), fixed_statistics ? 1u : 3u}, memory.scratch + 2 * room});
        if (!outputs_statistics) return;
        auto* deviation = memory.output<float>(2);
        if (fixed_statistics) {
          std::copy_n(memory.inputs[places.mean], list_bytes(statistics), outputs[1]);
          std::copy_n(memory.inputs[places.variance], list_bytes(statistics), outputs[2]);
        }
        for (std::int64_t i = 0; i < statistics; ++i) deviation[i] = 1 / std::sqrt(deviation[i] + epsilon);
      },
      bytes);
}

struct BackwardOptions {
  Places places;  ///< `variance` may be the inverse deviation.
  bool inverse_deviation = true;
  std::array<bool, 3> asked{};  ///< Gradients that are outputs.
  std::int64_t statistics = 0, channels = 0;
  std::size_t source_bytes = 0;
};

/// Target's gradient, source, … → the requested gradients of source, scale and shift.
Made backward_kernel(const onednn::Program& program, BackwardOptions of) {
  const std::size_t bytes = padded(list_bytes(of.statistics)) + (of.asked[0] ? 0 : padded(of.source_bytes)) +
                            2 * padded(list_bytes(of.channels)) + program.scratch_bytes();
  return kernel_of(
      [=](const Pointers& memory) {
        std::byte* scratch = memory.scratch;
        const auto room = [&](std::size_t size) { return std::exchange(scratch, scratch + padded(size)); };
        const std::byte* variance = memory.inputs[of.places.variance];
        if (of.inverse_deviation) {
          auto* made = reinterpret_cast<float*>(room(list_bytes(of.statistics)));
          const auto* inverse = reinterpret_cast<const float*>(variance);
          for (std::int64_t i = 0; i < of.statistics; ++i) made[i] = 1 / (inverse[i] * inverse[i]);
          variance = reinterpret_cast<const std::byte*>(made);
        }
        std::array<const std::byte*, 6> taken{memory.inputs[1], memory.inputs[0],
                                              memory.inputs[of.places.mean], variance};
        std::size_t reads = 4;
        const bool affine = of.places.scale != kNone;
        if (affine) {
          taken[reads++] = memory.inputs[of.places.scale];
          taken[reads++] = memory.inputs[of.places.scale];  // Replaces the shift, which is not read.
        }
        std::array<std::byte*, 3> given{};
        std::size_t writes = 0, next = 0;
        const auto give = [&](bool asked, std::size_t size) {
          given[writes++] = asked ? memory.outputs[next++] : room(size);
        };
        give(of.asked[0], of.source_bytes);
        if (affine) give(of.asked[1], list_bytes(of.channels)), give(of.asked[2], list_bytes(of.channels));
        program.run({{taken.data(), reads}, {given.data(), writes}, scratch});
      },
      bytes);
}

Error wrong_count(const Signature& signature) {
  return unsupported(signature, "wrong number of inputs or outputs");
}

/// True for f32 with `count` elements.
bool is_list(const Operand& operand, std::int64_t count) {
  return operand.dtype == DType::kF32 && operand.elements() == count;
}
bool are_lists(const Signature& signature, const Places& places, std::int64_t statistics,
               std::int64_t channels) {
  const auto fits = [&](std::size_t place, std::int64_t count) {
    return place == kNone || (place < signature.inputs.size() && is_list(signature.inputs[place], count));
  };
  return fits(places.scale, channels) && fits(places.shift, channels) && fits(places.mean, statistics) &&
         fits(places.variance, statistics);
}
Error mismatched_lists(const Signature& signature) {
  return unsupported(signature, "expected scale, shift and statistics as f32 lists that match the source");
}

/// f32 batches use custom loops instead of oneDNN.
std::optional<BatchNorm> plane_norm(const Normalisation& shape, const Places& places) {
  const Operand& source = shape.source;
  if (shape.of != Normalisation::Of::kBatch || source.dtype != DType::kF32) return std::nullopt;
  const std::int64_t batch = source.shape[0], channels = source.shape[1];
  return BatchNorm{
      {batch, channels, source.elements() / batch / channels}, places, shape.fixed_statistics, shape.epsilon};
}

Made finish_forward(const Signature& signature, const Normalisation& shape, const Places& places) {
  const std::int64_t channels = shape.source.shape[1];
  const std::int64_t statistics = shape.of == Normalisation::Of::kBatch ? channels : shape.source.shape[0];
  if (!are_lists(signature, places, statistics, channels)) return mismatched_lists(signature);
  if (signature.outputs.size() == 3 &&
      (!is_list(signature.outputs[1], statistics) || !is_list(signature.outputs[2], statistics))) {
    return unsupported(signature, "output statistics do not match the source");
  }
  if (const auto norm = plane_norm(shape, places)) return make_plane_batch_norm(*norm);
  EMPLACE_TRY_ASSIGN(const auto program, checked(signature, onednn::normalise(shape)));
  return forward_kernel(program, places, shape.fixed_statistics, statistics, shape.epsilon);
}

Made finish_backward(const Signature& signature, Normalisation shape, const Places& places,
                     const std::vector<bool>& mask) {
  const std::int64_t channels = shape.source.shape[1];
  const std::int64_t statistics = shape.of == Normalisation::Of::kBatch ? channels : shape.source.shape[0];
  if (!are_lists(signature, places, statistics, channels)) return mismatched_lists(signature);
  const auto asked = static_cast<std::size_t>(std::ranges::count(mask, true));
  if (mask.size() != 3 || asked != signature.outputs.size()) {
    return unsupported(signature, "output_mask does not match the number of outputs");
  }
  shape.affine = places.scale != kNone;
  if ((mask[1] || mask[2]) && !shape.affine) {
    return unsupported(signature, "gradient of a missing scale or shift");
  }
  if (const auto norm = plane_norm(shape, places)) {
    return make_plane_batch_norm_backward(*norm, {mask[0], mask[1], mask[2]});
  }
  const BackwardOptions options{places,
                                !shape.fixed_statistics,
                                {mask[0], mask[1], mask[2]},
                                statistics,
                                channels,
                                static_cast<std::size_t>(shape.source.bytes())};
  EMPLACE_TRY_ASSIGN(const auto program, checked(signature, onednn::normalise_backward(shape)));
  return backward_kernel(program, options);
}

/// Source (, scale, shift) (, running mean, running variance) → target, mean, inverse deviation. Running
/// statistics are only read: ops of a value graph do not modify their inputs.
Made make_batch_norm(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if ((signature.outputs.size() != 3 && signature.outputs.size() != 1) ||
      (inputs != 1 && inputs != 3 && inputs != 5) || signature.inputs[0].shape.size() < 2 ||
      signature.inputs[0].elements() == 0) {
    return wrong_count(signature);
  }
  Attributes attributes{signature};
  Normalisation shape{.of = Normalisation::Of::kBatch, .source = signature.inputs[0]};
  shape.fixed_statistics = !attributes.flag("training", false);
  shape.epsilon = static_cast<float>(attributes.number("eps", 1e-5));
  if (attributes.fault()) return *attributes.fault();
  Places places;
  if (inputs == 5 || (inputs == 3 && !shape.fixed_statistics)) places.scale = 1, places.shift = 2;
  if (inputs == 5 || (inputs == 3 && shape.fixed_statistics)) {
    places.mean = inputs - 2;
    places.variance = inputs - 1;
  }
  if (shape.fixed_statistics && places.mean == kNone) return wrong_count(signature);
  shape.affine = places.scale != kNone;
  return finish_forward(signature, shape, places);
}

/// Target's gradient, source (, scale) (, running mean, running variance), mean, inverse deviation.
Made make_batch_norm_backward(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if (inputs < 4 || inputs > 7 || signature.inputs[1].shape.size() < 2 ||
      signature.inputs[1].elements() == 0 || signature.inputs[0].shape != signature.inputs[1].shape) {
    return wrong_count(signature);
  }
  Attributes attributes{signature};
  Normalisation shape{.of = Normalisation::Of::kBatch, .source = signature.inputs[1]};
  shape.fixed_statistics = !attributes.flag("train", false);
  const float epsilon = static_cast<float>(attributes.number("eps", 1e-5));
  const auto mask = attributes.flags("output_mask", {true, true, true});
  if (attributes.fault()) return *attributes.fault();
  Places places;
  const bool scale = inputs % 2 == 1;
  if (scale) places.scale = 2;
  if (shape.fixed_statistics && inputs < 6) return wrong_count(signature);
  const std::size_t first = shape.fixed_statistics ? (scale ? 3 : 2) : inputs - 2;
  places.mean = first;
  places.variance = first + 1;
  shape.epsilon = shape.fixed_statistics ? epsilon : 0;
  return finish_backward(signature, shape, places, mask);
}

/// The source as rows that are normalised together; empty if the attribute does not match.
std::optional<Operand> rows_of(const Operand& source, const std::vector<std::int64_t>& normalised) {
  const std::size_t rank = source.shape.size();
  if (normalised.empty() || normalised.size() > rank || source.elements() == 0 ||
      !std::equal(normalised.rbegin(), normalised.rend(), source.shape.rbegin())) {
    return std::nullopt;
  }
  std::int64_t channels = 1;
  for (const std::int64_t dim : normalised) channels *= dim;
  return Operand{source.dtype, {source.elements() / channels, channels}, {channels, 1}};
}

/// Source (, scale) (, shift) → target, mean, inverse deviation.
Made make_layer_norm(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if (signature.outputs.size() != 3 || (inputs != 1 && inputs != 3)) return wrong_count(signature);
  Attributes attributes{signature};
  const auto rows = rows_of(signature.inputs[0], attributes.integers("normalized_shape"));
  Normalisation shape{.of = Normalisation::Of::kLayer};
  shape.epsilon = static_cast<float>(attributes.number("eps", 1e-5));
  if (attributes.fault()) return *attributes.fault();
  if (!rows)
    return unsupported(signature, "normalized_shape does not match the last dimensions of the source");
  shape.source = *rows;
  Places places;
  if (inputs == 3) places.scale = 1, places.shift = 2;
  shape.affine = inputs == 3;
  return finish_forward(signature, shape, places);
}

/// Target's gradient, source, mean, inverse deviation (, scale, shift).
Made make_layer_norm_backward(const Signature& signature) {
  const std::size_t inputs = signature.inputs.size();
  if ((inputs != 4 && inputs != 6) || signature.inputs[0].shape != signature.inputs[1].shape) {
    return wrong_count(signature);
  }
  Attributes attributes{signature};
  const auto rows = rows_of(signature.inputs[1], attributes.integers("normalized_shape"));
  const auto mask = attributes.flags("output_mask", {true, true, true});
  if (attributes.fault()) return *attributes.fault();
  if (!rows)
    return unsupported(signature, "normalized_shape does not match the last dimensions of the source");
  Places places{.mean = 2, .variance = 3};
  if (inputs == 6) places.scale = 4;
  return finish_backward(signature, {.of = Normalisation::Of::kLayer, .source = *rows}, places, mask);
}

/// Source, scale, shift, mean, variance → target.
Made make_onnx_batch_norm(const Signature& signature) {
  if (signature.inputs.size() != 5 || signature.outputs.size() != 1 || signature.inputs[0].shape.size() < 2 ||
      signature.inputs[0].elements() == 0) {
    return wrong_count(signature);
  }
  Attributes attributes{signature};
  if (attributes.flag("training_mode", false)) return unsupported(signature, "training_mode");
  Normalisation shape{.of = Normalisation::Of::kBatch, .source = signature.inputs[0]};
  shape.affine = shape.fixed_statistics = true;
  shape.epsilon = static_cast<float>(attributes.number("epsilon", 1e-5));
  if (attributes.fault()) return *attributes.fault();
  return finish_forward(signature, shape, {.scale = 1, .shift = 2, .mean = 3, .variance = 4});
}

constexpr KernelEntry kNormalisationKernels[] = {
    {"aten::native_batch_norm", packed_first<make_batch_norm>},
    {"aten::native_batch_norm_backward", packed_first<make_batch_norm_backward>},
    {"aten::native_layer_norm", packed_first<make_layer_norm>},
    {"aten::native_layer_norm_backward", packed_first<make_layer_norm_backward>},
    {"BatchNormalization", packed_first<make_onnx_batch_norm>},
};

}  // namespace

std::span<const KernelEntry> normalisation_kernels() { return kNormalisationKernels; }

}  // namespace emplace::cpu
