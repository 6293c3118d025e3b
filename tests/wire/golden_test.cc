// Goal: the bytes of version 1 stay what they are. Method: one stored frame of each message; today's encoder
// makes the same bytes, and today's decoder reads the stored ones. To write the frames of a message that is
// new (or of all, before a version is frozen):  EMPLACE_WRITE_GOLDEN=1 wire_test --gtest_filter='Golden*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/wire/samples.h"

namespace emplace::messages {
namespace {

const std::filesystem::path kFolder = std::filesystem::path{EMPLACE_SOURCE_DIR} / "tests/wire/golden/v1";

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
