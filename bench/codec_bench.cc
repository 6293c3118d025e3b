// Cost of encoding messages beyond the unavoidable copy. Floor: memcpy of the same bytes. Budget: an
// episode of 83,712 ops encodes in 1.1 x the memcpy of its placements and float log-probabilities; its bulk
// is decoded as views in under 0.5 us.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "messages/envelope.h"
#include "messages/learning.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"

namespace emplace::messages {
namespace {

struct Episode {
  std::vector<std::uint8_t> placement;
  std::vector<float> log_probabilities;
  std::size_t bytes() const { return placement.size() + log_probabilities.size() * sizeof(float); }
};

Episode make_episode(std::int64_t ops) {
  Episode episode{.placement = std::vector<std::uint8_t>(static_cast<std::size_t>(ops)),
                  .log_probabilities = std::vector<float>(static_cast<std::size_t>(ops), -0.5f)};
  std::iota(episode.placement.begin(), episode.placement.end(), std::uint8_t{0});
  return episode;
}

/// Encodes envelope, body and bulk into reused buffers, as a steady sender does.
std::size_t encode(const Episode& episode, Bytes& body, Bytes& bulk) {
  std::array<std::byte, kMaxEnvelopeBytes> head;
  const std::size_t head_bytes = encode_envelope(
      {.type = PlacementProposed::kType, .from = ActorId{1}, .to = ActorId{2}, .seq = 3}, head.data());
  PlacementProposed proposed{.graph_sha256 = std::string(64, 'a'),
                             .episode = 1'000'000,
                             .count = 1,
                             .num_ops = static_cast<std::uint32_t>(episode.placement.size()),
                             .num_devices = 5};
  bulk.clear();
  const auto append = [&](std::span<const std::byte> bytes) {
    const Section section{bulk.size(), bytes.size()};
    bulk.insert(bulk.end(), bytes.begin(), bytes.end());
    return section;
  };
  proposed.placements = append(std::as_bytes(std::span{episode.placement}));
  proposed.actions = append(std::as_bytes(std::span{episode.log_probabilities}));
  body.clear();
  encode_body(proposed, body);
  return head_bytes + body.size() + bulk.size();
}

void BM_EncodeEpisode(benchmark::State& state) {
  const Episode episode = make_episode(state.range(0));
  Bytes body;
  Bytes bulk;
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = encode(episode, body, bulk);
    benchmark::DoNotOptimize(bulk.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(episode.bytes()));
  state.counters["wire_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_EncodeEpisode)->Arg(256)->Arg(4'096)->Arg(83'712)->Unit(benchmark::kMicrosecond);

void BM_MemcpyEpisode(benchmark::State& state) {
  const Episode episode = make_episode(state.range(0));
  Bytes out(episode.bytes());
  for (auto _ : state) {
    std::memcpy(out.data(), episode.placement.data(), episode.placement.size());
    std::memcpy(out.data() + episode.placement.size(), episode.log_probabilities.data(),
                episode.log_probabilities.size() * sizeof(float));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(episode.bytes()));
}
BENCHMARK(BM_MemcpyEpisode)->Arg(256)->Arg(4'096)->Arg(83'712)->Unit(benchmark::kMicrosecond);

/// Decodes the two bulk sections as views with checked offsets.
void BM_DecodeBulkAsViews(benchmark::State& state) {
  const Episode episode = make_episode(state.range(0));
  Bytes body;
  Bytes bulk;
  encode(episode, body, bulk);
  const auto proposed = *decode_body<PlacementProposed>(body);
  for (auto _ : state) {
    const auto placements = section_of(bulk, proposed.placements);
    const auto actions = section_of(bulk, proposed.actions);
    benchmark::DoNotOptimize(view_as<std::uint8_t>(*placements).data());
    benchmark::DoNotOptimize(actions->data());
  }
}
BENCHMARK(BM_DecodeBulkAsViews)->Arg(83'712);

/// Decodes the envelope, the sixteen fields of the body and the views.
void BM_DecodeEpisode(benchmark::State& state) {
  const Episode episode = make_episode(state.range(0));
  Bytes body;
  Bytes bulk;
  encode(episode, body, bulk);
  std::array<std::byte, kMaxEnvelopeBytes> head;
  const std::size_t head_bytes = encode_envelope({.type = PlacementProposed::kType, .seq = 3}, head.data());
  for (auto _ : state) {
    benchmark::DoNotOptimize(decode_envelope({head.data(), head_bytes}));
    const auto proposed = decode_body<PlacementProposed>(body);
    benchmark::DoNotOptimize(section_of(bulk, proposed->placements));
    benchmark::DoNotOptimize(section_of(bulk, proposed->actions));
  }
}
BENCHMARK(BM_DecodeEpisode)->Arg(83'712);

void BM_Envelope(benchmark::State& state) {
  std::array<std::byte, kMaxEnvelopeBytes> bytes;
  std::uint64_t seq = 0;
  for (auto _ : state) {
    const std::size_t size = encode_envelope(
        {.type = 1, .from = ActorId{~0ull}, .to = ActorId{~1ull}, .seq = ++seq}, bytes.data());
    benchmark::DoNotOptimize(decode_envelope({bytes.data(), size}));
  }
}
BENCHMARK(BM_Envelope);

/// Round trip of the 256 results of a batch. Budget: far below the time of the 256 simulations (15 ms at
/// 1,000 ops).
void BM_MeasuredBatch(benchmark::State& state) {
  constexpr std::uint32_t kCount = 256;
  PlacementMeasured measured;
  measured.resize(kCount, 5);
  measured.valid.assign(kCount, 1);
  measured.step_time_s.assign(kCount, 0.5);
  Bytes body;
  for (auto _ : state) {
    body.clear();
    encode_body(measured, body);
    benchmark::DoNotOptimize(decode_body<PlacementMeasured>(body));
  }
  state.counters["wire_bytes"] = static_cast<double>(body.size());
}
BENCHMARK(BM_MeasuredBatch)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace emplace::messages

BENCHMARK_MAIN();
