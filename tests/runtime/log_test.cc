// Goal: the log writes each event as one escaped line.  Method: a real file, read back.
#include "runtime/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace emplace::runtime {
namespace {

TEST(Log, WritesOneEscapedLinePerEventWithItsActor) {
  const std::string file = "/tmp/emplace-" + std::to_string(::getpid()) + "-log.log";
  ASSERT_TRUE(open_log(file).ok());
  log(LogLevel::kInfo, "sampler/0", "a\nb \x1b[31m");
  close_log();
  log(LogLevel::kInfo, "sampler/0", "closed");
  std::ifstream in{file};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("info sampler/0: a?b ?[31m"), std::string::npos) << lines[0];
  std::filesystem::remove(file);
  EXPECT_FALSE(open_log("/proc/none/x.log").ok());
}

}  // namespace
}  // namespace emplace::runtime
