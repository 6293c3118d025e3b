// Goal: a build without the laboratory names what is missing. Method: a word of each kind, by the real
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using ::testing::EndsWith;
using testing::Finished;
using testing::run;
using testing::shipped;
using ::testing::StartsWith;

TEST(WithoutLaboratory, ItsWordsAreNotInThisBuild) {
  const std::string graph = shipped("tests/fixtures/graphs/cifar10_cnn-bs4.json.gz");
  for (const auto& [word, arguments] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"method 'towers-sync'", {"compare", graph, "-d", "h100 x 2", "-m", "towers-sync"}},
           {"format 'pipedream'", {"import", graph, "--from", "pipedream", "-o", "none.json"}},
           {"model 'worlds'", {"generate", "worlds", "--index", "0", "-o", "none.json"}},
           {"command 'train'", {"train", "none.toml", "-o", "none"}}}) {
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2) << word;
    EXPECT_THAT(done.err, StartsWith("error: "));
    EXPECT_THAT(done.err, EndsWith(word + ": is not in this build; configure it with -DEMPLACE_LAB=ON\n"));
  }
}

}  // namespace
}  // namespace emplace
