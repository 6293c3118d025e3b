// Goal: any bytes are read as a message or refused, without a crash or excessive memory (also under
// sanitizers). Method: frames of every message, truncated at each length and changed at random places; a
// failing seed is printed.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/wire/samples.h"

namespace emplace::messages {
namespace {

std::span<const std::byte> body_of(const Sample& sample) {
  std::uint32_t size = 0;
  std::memcpy(&size, sample.frames.data(), sizeof size);
  const std::size_t at = 4 + size;
  std::memcpy(&size, sample.frames.data() + at, sizeof size);
  return std::span{sample.frames}.subspan(at + 4, size);
}

/// Decoding succeeds or fails; an accepted message is encoded and accepted again.
void expect_harmless(const Sample& sample, std::span<const std::byte> body, std::uint64_t seed) {
  const Bytes exact(body.begin(),
                    body.end());  // A copy of exact size, so that a sanitizer notices a read past the end.
  const auto once = sample.round_trip(exact);
  if (!once) return;
  const auto twice = sample.round_trip(*once);
  ASSERT_TRUE(twice.ok()) << sample.name << " seed " << seed;
  // NaN differs from itself but has the same bytes.
  EXPECT_EQ(*twice, *once) << sample.name << " seed " << seed;
}

TEST(HostileBytes, EveryTruncationIsRefused) {
  for (const Sample& sample : all_samples()) {
    const auto body = body_of(sample);
    for (std::size_t size = 0; size < body.size(); ++size) {
      const Bytes cut(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(sample.round_trip(cut).ok()) << sample.name << " at " << size;
    }
  }
}

TEST(HostileBytes, EveryByteMayTakeExtremeValues) {
  for (const Sample& sample : all_samples()) {
    const auto body = body_of(sample);
    for (std::size_t at = 0; at < body.size(); ++at) {
      for (const int value : {0x00, 0x7f, 0x80, 0x9f, 0xc1, 0xc6, 0xc9, 0xdb, 0xdd, 0xdf, 0xff}) {
        Bytes changed(body.begin(), body.end());
        changed[at] = static_cast<std::byte>(value);
        expect_harmless(sample, changed, at);
      }
    }
  }
}

TEST(HostileBytes, MutationsAreHarmless) {
  const auto samples = all_samples();
  for (std::uint64_t seed = 0; seed < 30'000; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const Sample& sample = samples[rng.below(static_cast<std::uint32_t>(samples.size()))];
    const auto body = body_of(sample);
    Bytes changed(body.begin(), body.end());
    for (std::uint32_t edits = 1 + rng.below(8); edits > 0 && !changed.empty(); --edits) {
      const auto at = static_cast<std::ptrdiff_t>(rng.below(static_cast<std::uint32_t>(changed.size())));
      switch (rng.below(4)) {
        case 0:
          changed[static_cast<std::size_t>(at)] = static_cast<std::byte>(rng.below(256));
          break;
        case 1:
          changed.erase(changed.begin() + at);
          break;
        case 2:
          changed.insert(changed.begin() + at, static_cast<std::byte>(rng.below(256)));
          break;
        case 3:
          changed.resize(static_cast<std::size_t>(at) + 1);
          break;
      }
    }
    expect_harmless(sample, changed, seed);
    (void)decode_envelope(changed);
  }
}

TEST(HostileBytes, MessageReadAsAnotherTypeIsHarmless) {
  const auto samples = all_samples();
  std::size_t accepted = 0;
  for (const Sample& reader : samples)
    for (const Sample& writer : samples) accepted += reader.round_trip(body_of(writer)).ok() ? 1 : 0;
  EXPECT_GE(accepted, samples.size());
}

}  // namespace
}  // namespace emplace::messages
