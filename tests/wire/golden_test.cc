// Goal: the bytes of a version stay what they are. Method: one stored frame of each message and version;
// today's encoder makes the bytes of the newest, and today's decoder reads those of all. To write the frames
// of the newest before it is frozen:  EMPLACE_WRITE_GOLDEN=1 wire_test --gtest_filter='Golden*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/wire/samples.h"

namespace emplace::messages {
namespace {

const std::filesystem::path kGolden = std::filesystem::path{EMPLACE_SOURCE_DIR} / "tests/wire/golden";
const std::filesystem::path kFolder = kGolden / ("v" + std::to_string(kWireVersion));

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  const std::vector<char> chars{std::istreambuf_iterator<char>{in}, {}};
  const auto bytes = std::as_bytes(std::span{chars});
  return {bytes.begin(), bytes.end()};
}

std::vector<std::span<const std::byte>> frames_of(std::span<const std::byte> all) {
  std::vector<std::span<const std::byte>> frames;
  while (all.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, all.data(), sizeof size);
    frames.push_back(all.subspan(4, size));
    all = all.subspan(4 + size);
  }
  return frames;
}

TEST(Golden, EncodesEveryMessageToTheStoredBytes) {
  for (const Sample& sample : all_samples()) {
    const auto path = kFolder / (sample.name + ".bin");
    if (std::getenv("EMPLACE_WRITE_GOLDEN") != nullptr) {
      std::ofstream out{path, std::ios::binary};
      out.write(reinterpret_cast<const char*>(sample.frames.data()),
                static_cast<std::streamsize>(sample.frames.size()));
    }
    EXPECT_EQ(read_file(path), sample.frames) << sample.name;
  }
}

TEST(Golden, ReadsTheStoredBytesBack) {
  for (const Sample& sample : all_samples()) {
    const Bytes stored = read_file(kFolder / (sample.name + ".bin"));
    const auto frames = frames_of(stored);
    ASSERT_EQ(frames.size(), 3u) << sample.name;
    const auto envelope = decode_envelope(frames[0]);
    ASSERT_TRUE(envelope.ok()) << sample.name;
    EXPECT_EQ(envelope->type, sample.type);
    EXPECT_EQ(envelope->seq, 300u);
    const auto again = sample.round_trip(frames[1]);
    ASSERT_TRUE(again.ok()) << sample.name;
    EXPECT_TRUE(std::equal(again->begin(), again->end(), frames[1].begin(), frames[1].end())) << sample.name;
  }
}

TEST(Golden, ReadsTheMessagesOfEveryEarlierVersion) {
  std::size_t read = 0;
  for (int version = 1; version < kWireVersion; ++version) {
    for (const Sample& sample : all_samples()) {
      const Bytes stored = read_file(kGolden / ("v" + std::to_string(version)) / (sample.name + ".bin"));
      if (stored.empty()) continue;  // Newer than that version.
      const auto frames = frames_of(stored);
      ASSERT_EQ(frames.size(), 3u) << sample.name;
      const auto envelope = decode_envelope(frames[0]);
      ASSERT_TRUE(envelope.ok()) << sample.name;
      EXPECT_EQ(envelope->version, version);
      EXPECT_EQ(envelope->type, sample.type) << "a number is never used again";
      EXPECT_TRUE(sample.round_trip(frames[1]).ok()) << sample.name;
      ++read;
    }
  }
  EXPECT_EQ(read, 18u) << "all of version 1";
}

TEST(Golden, HasOneFrameForEachMessageOfTheRegister) {
  std::set<std::string> stored;
  for (const auto& entry : std::filesystem::directory_iterator{kFolder})
    stored.insert(entry.path().stem().string());
  std::set<std::string> known;
  for (const Sample& sample : all_samples()) known.insert(sample.name);
  EXPECT_EQ(known.size(), std::tuple_size_v<AllMessages>);
  EXPECT_EQ(stored, known);
}

}  // namespace
}  // namespace emplace::messages
