// Families of networks that are recorded on a tape: those of the papers.
#include <array>
#include <utility>

#include "graph/models/drawing.h"
#include "lab/worlds/world_families.h"

namespace emplace::models {
namespace {

Recording recording_of(Rng& rng, const DrawnStep& step) {
  return {.granularity = happens(rng, 0.5) ? Granularity::kAten : Granularity::kTensorFlow,
          .training = step.training};
}

Optimizer drawn_optimizer(Rng& rng) { return static_cast<Optimizer>(rng.below(4)); }

constexpr std::uint32_t kAllCellOps = 6;

Result<OpGraph> cells(Rng rng, DrawnStep step, Identity identity) {
  CellNetOptions options;
  const auto blocks = [&] { return static_cast<std::uint32_t>(drawn(rng, 3, 7)); };
  options.normal = drawn_cell(rng, blocks(), kAllCellOps);
  options.reduction = drawn_reduction(rng, blocks(), kAllCellOps);
  options.filters = drawn(rng, 16, 96, 4);
  options.stem_channels = 3 * options.filters;
  options.batch = drawn(rng, 8, 256);
  options.optimizer = drawn_optimizer(rng);
  options.recording = recording_of(rng, step);
  options.repeats = step.depth;
  return cell_net_graph(options, std::move(identity));
}

Result<OpGraph> language_model(Rng rng, DrawnStep step, Identity identity) {
  RnnlmOptions options;
  options.layers = drawn(rng, 1, 6);
  options.hidden = drawn(rng, 256, 3072, 32);
  options.batch = drawn(rng, 8, 256);
  options.vocabulary = drawn(rng, 4000, 64000, 8);
  options.optimizer = drawn_optimizer(rng);
  options.recording = recording_of(rng, step);
  options.steps = step.depth;
  return rnnlm_graph(options, std::move(identity));
}

Result<OpGraph> recurrent_cells(Rng rng, DrawnStep step, Identity identity) {
  CellRnnOptions options;
  const std::int64_t nodes = drawn(rng, 3, 12);
  for (std::int64_t k = 0; k < nodes; ++k)
    options.nodes.push_back({.input = k == 0 ? 0u : rng.below(static_cast<std::uint32_t>(k)),
                             .activation = static_cast<Activation>(rng.below(4))});
  options.layers = drawn(rng, 1, 3);
  options.hidden = drawn(rng, 256, 2048, 32);
  options.batch = drawn(rng, 16, 256);
  options.vocabulary = drawn(rng, 4000, 32000, 8);
  options.optimizer = drawn_optimizer(rng);
  options.steps = step.depth;
  return cell_rnn_graph(options, std::move(identity));
}

Result<OpGraph> encoder_decoder(Rng rng, DrawnStep step, Identity identity) {
  NmtOptions options;
  options.layers = drawn(rng, 1, 6);
  options.hidden = drawn(rng, 256, 2048, 32);
  options.batch = drawn(rng, 8, 192);
  options.vocabulary = drawn(rng, 8000, 48000, 8);
  options.optimizer = drawn_optimizer(rng);
  options.recording = recording_of(rng, step);
  options.steps = step.depth;
  return nmt_graph(options, std::move(identity));
}

Result<OpGraph> inception(Rng rng, DrawnStep step, Identity identity) {
  InceptionV3Options options;
  options.batch = drawn(rng, 2, 128);
  options.optimizer = drawn_optimizer(rng);
  options.recording = recording_of(rng, step);
  return inception_v3_graph(options, std::move(identity));
}

Result<OpGraph> nasnet(Rng rng, DrawnStep step, Identity identity) {
  NasnetOptions options;
  options.batch = drawn(rng, 8, 256);
  options.optimizer = drawn_optimizer(rng);
  options.recording = recording_of(rng, step);
  options.repeats = step.depth;
  return nasnet_a_graph(options, std::move(identity));
}

constexpr std::array kRecorded{
    WorldFamily{"cells", "image classifiers of convolutional cells with random wiring", cells, 40},
    WorldFamily{"rnnlm", "language models of stacked LSTM cells, unrolled", language_model, 99},
    WorldFamily{"recurrent-cells", "language models of recurrent cells with random wiring, unrolled",
                recurrent_cells, 99, /*has_forward=*/false},
    WorldFamily{"seq2seq", "LSTM encoder-decoders with attention, unrolled", encoder_decoder, 99},
    WorldFamily{"inception", "Inception-v3", inception, 1},
    WorldFamily{"nasnet", "NASNet-A", nasnet, 40},
};

}  // namespace

std::span<const WorldFamily> recorded_families() { return kRecorded; }

}  // namespace emplace::models
