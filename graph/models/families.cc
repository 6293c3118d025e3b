#include "graph/models/families.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "base/text/words.h"
#include "graph/models/drawing.h"
#include "graph/models/networks.h"

namespace emplace::models {
namespace {

constexpr std::array<FamilyFacts, 3> kFamilies{
    {{Family::kCifar10, "cifar10", "image classifiers of convolutional cells with random wiring", 128},
     {Family::kPtb, "ptb", "language models of recurrent cells with random wiring, unrolled", 128},
     {Family::kNmt, "nmt", "encoder-decoders with attention, of varied length, depth, width and batch",
      160}}};

constexpr std::uint32_t kSplitIndex = 0xffffffffu;  // Reserved index; no graph uses it.

Rng stream(Family family, std::uint64_t seed, std::uint32_t index) {
  return Rng{seed, Purpose::kGraphs, (static_cast<std::uint64_t>(family) << 32) | index};
}

constexpr std::uint32_t kCellOps = 5;  // All but the separable convolution of 7 by 7.

/// Sizes are chosen so that more than one GPU pays off: 1.5 to 12 GB at the peak, half of it off the critical
/// path.
Result<OpGraph> cifar10_graph(Rng& rng, Identity identity) {
  CellNetOptions options;
  options.normal = drawn_cell(rng, 5, kCellOps);
  options.reduction = drawn_reduction(rng, 5, kCellOps);
  options.repeats = drawn(rng, 1, 3);
  options.filters = drawn(rng, 24, 48, 4);
  options.stem_channels = 3 * options.filters;
  options.batch = drawn(rng, 64, 192, 16);
  return cell_net_graph(options, std::move(identity));
}

Result<OpGraph> ptb_graph(Rng& rng, Identity identity) {
  CellRnnOptions options;
  options.layers = drawn(rng, 1, 2);
  // Two shallow layers have as many nodes per step as one deep layer, so that graph sizes stay similar.
  const std::int64_t nodes = options.layers == 1 ? drawn(rng, 7, 12) : drawn(rng, 4, 7);
  for (std::int64_t k = 0; k < nodes; ++k) {
    options.nodes.push_back({.input = k == 0 ? 0u : rng.below(static_cast<std::uint32_t>(k)),
                             .activation = static_cast<Activation>(rng.below(4))});
  }
  options.steps = drawn(rng, 16, 30);
  options.hidden = drawn(rng, 768, 1792, 128);
  options.batch = drawn(rng, 64, 256, 16);
  return cell_rnn_graph(options, std::move(identity));
}

Result<OpGraph> nmt_family_graph(Rng& rng, Identity identity) {
  NmtOptions options;
  options.layers = drawn(rng, 2, 4);
  options.steps = drawn(rng, 16, 32);
  options.hidden = drawn(rng, 512, 1024, 64);
  options.batch = drawn(rng, 32, 128, 4);
  options.vocabulary = drawn(rng, 16000, 32000, 4000);
  return nmt_graph(options, std::move(identity));
}

}  // namespace

std::span<const FamilyFacts> all_families() { return kFamilies; }

const FamilyFacts& facts(Family family) { return kFamilies[static_cast<std::size_t>(family)]; }

Result<Family> find_family(std::string_view name) {
  std::vector<std::string_view> names;
  for (const FamilyFacts& known : kFamilies) {
    if (known.name == name) return known.family;
    names.push_back(known.name);
  }
  const std::string_view near = nearest_word(name, names);
  return invalid("family '" + printable(name, 60) + "'", "is unknown",
                 near.empty() ? "families: cifar10, ptb, nmt" : "did you mean '" + std::string{near} + "'?");
}

Result<OpGraph> family_graph(Family family, std::uint64_t seed, std::uint32_t index) {
  EMPLACE_CHECK(index != kSplitIndex, "an index below 2^32 - 1");
  const FamilyFacts& known = facts(family);
  Identity identity;
  identity.name = fmt::format("{}-s{}-{:02}", known.name, seed, index);
  identity.source = "emplace generate " + std::string{known.name};
  identity.meta_json =
      fmt::format(R"({{"family":"{}","groups":{},"index":{},"kind":"training","precision":"f32","seed":{}}})",
                  known.name, known.groups, index, seed);
  Rng rng = stream(family, seed, index);
  switch (family) {
    case Family::kCifar10:
      return cifar10_graph(rng, std::move(identity));
    case Family::kPtb:
      return ptb_graph(rng, std::move(identity));
    case Family::kNmt:
      break;
  }
  return nmt_family_graph(rng, std::move(identity));
}

FamilySplit split_family(Family family, std::uint64_t seed, std::uint32_t count) {
  EMPLACE_CHECK(count >= 2, "one graph to learn from and one to test on");
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  Rng rng = stream(family, seed, kSplitIndex);
  rng.shuffle(order);
  const std::uint32_t train = std::clamp((count * 3 + 3) / 4, 1u, count - 1);
  FamilySplit split{{order.begin(), order.begin() + train}, {order.begin() + train, order.end()}};
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.test.begin(), split.test.end());
  return split;
}

}  // namespace emplace::models
