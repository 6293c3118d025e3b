// Goal: the findings and the seeds of fuzzing are harmless everywhere. Method: every file of the corpus
// through its target, then seeded changes of each; a change is printed before it can crash. Needs no fuzzer.
// EMPLACE_FUZZ_TIMES=50 makes 50 times as many changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/lab_words.h"
#include "base/rng.h"
#include "tests/fuzz/targets.h"

namespace emplace::fuzz {
namespace {

const std::filesystem::path kCorpus = std::filesystem::path{EMPLACE_SOURCE_DIR} / "tests/fuzz/corpus";

std::vector<std::filesystem::path> seeds(std::string_view target) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{kCorpus / target})
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Bytes changed(Bytes bytes, Rng& rng) {
  for (std::uint32_t edits = 1 + rng.below(6); edits > 0 && !bytes.empty(); --edits) {
    const auto at =
        bytes.begin() + static_cast<std::ptrdiff_t>(rng.below(static_cast<std::uint32_t>(bytes.size())));
    const auto value = static_cast<std::byte>(rng.below(256));
    switch (rng.below(5)) {
      case 0:
        *at = value;
        break;
      case 1:
        *at ^= std::byte{1} << rng.below(8);
        break;
      case 2:
        bytes.erase(
            at, at + static_cast<std::ptrdiff_t>(1 + rng.below(static_cast<std::uint32_t>(
                                                         std::min<std::ptrdiff_t>(8, bytes.end() - at)))));
        break;
      case 3:
        bytes.insert(at, 1 + rng.below(8), value);
        break;
      default:
        if (rng.below(8) == 0) bytes.erase(at, bytes.end());
    }
  }
  return bytes;
}

int times() {
  const char* const text = std::getenv("EMPLACE_FUZZ_TIMES");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, IsHarmless) {
  const auto files = seeds(GetParam().name);
  EXPECT_FALSE(files.empty());
  GetParam().run({});
  for (const auto& file : files) {
    SCOPED_TRACE(file.string());
    const auto bytes = read_file(file);
    ASSERT_TRUE(bytes.ok()) << bytes.error().context;
    GetParam().run(*bytes);
  }
}

TEST_P(Corpus, SeededChangesAreHarmless) {
  for (const auto& file : seeds(GetParam().name)) {
    const auto bytes = read_file(file);
    ASSERT_TRUE(bytes.ok());
    const int mutations =
        std::max(1, static_cast<int>(GetParam().mutations * 1'000 / (1'000 + bytes->size())));
    for (int seed = 0; seed < mutations * times(); ++seed) {
      Rng rng{static_cast<std::uint64_t>(seed), Purpose::kTest};
      const Bytes input = changed(*bytes, rng);
      SCOPED_TRACE(file.filename().string() + " seed " + std::to_string(seed));
      GetParam().run(input);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(kTargets),
                         [](const auto& one) { return std::string{one.param.name}; });

TEST(Fuzz, EveryTargetHasSeedsAndEverySeedATarget) {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator{kCorpus})
    folders.insert(entry.path().filename());
  std::set<std::string> names;
  for (const Target& target : kTargets) names.emplace(target.name);
#if !EMPLACE_LAB
  for (const std::string_view word : lab_words(LabWord::kFormat)) folders.erase(std::string{word});
#endif
  EXPECT_EQ(folders, names);
  EXPECT_LE(names.size(), 18u);
}

}  // namespace
}  // namespace emplace::fuzz
