// Goal: `emplace keygen` makes keys that only their owner can read, adds them to allow-lists, and reports
// errors in one line. Method: the built program as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/keys.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run;
using ::testing::StartsWith;
using testing::TemporaryFolder;

TEST(Keygen, WritesKeysThatNameTheirHead) {
  const TemporaryFolder folder;
  const std::string keys = folder.at("keys");
  EXPECT_EQ(run({"keygen", keys}).status, 0);
  const Finished made = run({"keygen", keys, "--role", "executor", "--name", "rack7", "--json"});
  EXPECT_EQ(made.status, 0) << made.err;
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_EQ(json.at("knows_head"), true);
  struct stat info {};
  ASSERT_EQ(::stat((keys + "/rack7.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(::stat(keys.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  const auto pair = load_key_pair(keys + "/rack7.key");
  ASSERT_TRUE(pair.ok()) << pair.error().context;
  EXPECT_EQ(pair->head, *load_public_key(keys + "/head.pub"));
  EXPECT_EQ(json.at("public"), pair->public_key);
  EXPECT_THAT(made.out, Not(HasSubstr(pair->secret_key)));
  const auto list = load_allow_list(keys + "/allowed.toml");
  ASSERT_TRUE(list.ok()) << list.error().context;
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->at(0).name, "rack7");
  EXPECT_EQ(to_text(list->at(0).roles), "executor");
}

TEST(Keygen, PrintsTheEntryWithoutAnAllowList) {
  const TemporaryFolder folder;
  const Finished made =
      run({"keygen", "--role", "actor,operator", "-o", folder.at("ops.key"), "--name", "ops"});
  EXPECT_EQ(made.status, 0) << made.err;
  const auto entry = made.out.find("[[key]]");
  ASSERT_NE(entry, std::string::npos) << made.out;
  const auto list = parse_allow_list(
      made.out.substr(entry, made.out.find("]\n", made.out.find("roles", entry)) + 2 - entry), "out");
  ASSERT_TRUE(list.ok()) << list.error().context;
  EXPECT_EQ(list->at(0).public_key, *load_public_key(folder.at("ops.pub")));
}

TEST(Keygen, RefusesInOneLineAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string keys = folder.at("keys");
  ASSERT_EQ(run({"keygen", keys, "--role", "executor", "--name", "a"}).status, 0);
  const std::string broken = folder.file("broken.toml", "[[key]]\nname = 3\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"keygen", keys, "--role", "executor", "--name", "a"}, "exists already"},
      {{"keygen", "-o", folder.at("b.key"), "--name", "a", "--role", "actor", "--allow",
        keys + "/allowed.toml"},
       "already has a key named 'a'"},
      {{"keygen", "-o", folder.at("b.key"), "--role", "executer"}, "role 'executer': is unknown"},
      {{"keygen", "-o", folder.at("b.key"), "--allow", keys + "/allowed.toml"}, "--allow needs a role"},
      {{"keygen", "-o", folder.at("b.key"), "--role", "actor", "--allow", broken}, "broken.toml:"},
      {{"keygen", "-o", folder.at("b.key"), "--role", "actor", "--head", folder.at("none.pub")},
       "cannot be read"},
      {{"keygen", "-o", folder.at("none/b.key"), "--role", "actor"}, "cannot be written"},
      {{"keygen", "-o", folder.at("b.pub"), "--role", "actor"}, "is reserved for public keys"},
      {{"keygen", keys, "--name", "../b"}, "must be 1 to 64 of"}};
  for (const auto& [arguments, text] : cases) {
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2) << text;
    EXPECT_THAT(done.err, StartsWith("error: "));
    EXPECT_EQ(done.err.find('\n'), done.err.size() - 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_THAT(done.out, IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(folder.at("b.key"))) << text;
    EXPECT_FALSE(std::filesystem::exists(folder.at("b.pub"))) << text;
  }
  EXPECT_EQ(load_allow_list(keys + "/allowed.toml")->size(), 1u);
  EXPECT_EQ(run({"keygen", keys, "--role", "actor", "--name", "a", "--force"}).status, 0);
  EXPECT_EQ(to_text(load_allow_list(keys + "/allowed.toml")->at(0).roles), "actor");
}

}  // namespace
}  // namespace emplace
