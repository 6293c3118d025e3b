// Goal: key files and allow-lists are valid or refused in one line that shows no secret.
// Method: files in a private folder; a known pair of ZeroMQ's documentation.
#include "base/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The server's pair of the ZeroMQ RFC 26 examples.
const char* const kPublic = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const char* const kSecret = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";

class Keys : public ::testing::Test {
 protected:
  Keys() {
    std::string pattern = (std::filesystem::temp_directory_path() / "emplace-keys-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Keys() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path at(const char* name) const { return folder_ / name; }
  std::filesystem::path file(const char* name, const std::string& text, mode_t mode = 0600) const {
    std::ofstream{at(name)} << text;
    ::chmod(at(name).c_str(), mode);
    return at(name);
  }
  static mode_t mode(const std::filesystem::path& path) {
    struct stat info {};
    ::stat(path.c_str(), &info);
    return info.st_mode & 07777;
  }
  std::filesystem::path folder_;
};

std::string pair_text(const std::string& public_key, const std::string& secret) {
  return "name = \"a\"\npublic = \"" + public_key + "\"\nsecret = \"" + secret + "\"\n";
}

TEST_F(Keys, PairRoundTripsAndOnlyItsOwnerMayReadIt) {
  KeyPair keys = make_key_pair("rack7");
  keys.head = kPublic;
  ASSERT_TRUE(save_key_pair(at("rack7.key"), keys, false).ok());
  EXPECT_EQ(mode(at("rack7.key")), 0600u);
  EXPECT_EQ(mode(at("rack7.pub")), 0644u);
  const auto read = load_key_pair(at("rack7.key"));
  ASSERT_TRUE(read.ok()) << read.error().context;
  EXPECT_EQ(read->name, "rack7");
  EXPECT_EQ(read->secret_key, keys.secret_key);
  EXPECT_EQ(read->head, kPublic);
  EXPECT_EQ(*load_public_key(at("rack7.pub")), keys.public_key);
  EXPECT_EQ(*load_public_key(at("rack7.key")), keys.public_key);
  const auto pub = read_file(at("rack7.pub"));
  const std::string text{reinterpret_cast<const char*>(pub->data()), pub->size()};
  EXPECT_THAT(text, Not(HasSubstr(keys.secret_key)));
}

TEST_F(Keys, ReplacesFilesOnlyOnRequest) {
  const KeyPair first = make_key_pair("a");
  ASSERT_TRUE(save_key_pair(at("a.key"), first, false).ok());
  const auto refused = save_key_pair(at("a.key"), make_key_pair("a"), false);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, HasSubstr("exists already"));
  EXPECT_EQ(load_key_pair(at("a.key"))->public_key, first.public_key);
  EXPECT_TRUE(save_key_pair(at("a.key"), make_key_pair("a"), true).ok());
  EXPECT_NE(load_key_pair(at("a.key"))->public_key, first.public_key);
  for (const auto& entry : std::filesystem::directory_iterator{folder_})
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".part")));
}

TEST_F(Keys, KnownPairOfTheSpecificationIsValid) {
  EXPECT_TRUE(load_key_pair(file("a.key", pair_text(kPublic, kSecret))).ok());
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key(std::string(40, '#')));  // Its value exceeds 32 bits.
  EXPECT_FALSE(is_key(std::string(40, '"')));
  EXPECT_FALSE(is_key(std::string(39, '0')));
  EXPECT_TRUE(is_key(std::string(40, '0')));
}

TEST_F(Keys, InvalidKeyFileIsRefusedWithoutShowingTheSecret) {
  const std::string other = make_key_pair("b").public_key;
  const std::vector<std::pair<std::filesystem::path, std::string>> cases{
      {at("none.key"), "cannot be read"},
      {file("open.key", pair_text(kPublic, kSecret), 0640), "others may read this secret; chmod 600"},
      {file("short.key", pair_text(kPublic, std::string{kSecret}.substr(1))),
       "'secret' is not a key: expected 40 characters"},
      {file("missing.key", "name = \"a\"\npublic = \"" + std::string{kPublic} + "\"\n"),
       "'secret' is missing"},
      {file("apart.key", pair_text(other, kSecret)), "do not match"},
      {file("extra.key", pair_text(kPublic, kSecret) + "heat = \"x\"\n"), "did you mean 'head'?"},
      {file("text.key", "garbage"), "is not TOML"},
      {file("name.key", "name = \"../a\"\npublic = \"\"\nsecret = \"\"\n"), "'name' must be"}};
  for (const auto& [path, text] : cases) {
    const auto read = load_key_pair(path);
    ASSERT_FALSE(read.ok()) << path;
    EXPECT_THAT(read.error().context, HasSubstr(text));
    EXPECT_EQ(read.error().context.find('\n'), std::string::npos);
    EXPECT_THAT(read.error().context, Not(HasSubstr(std::string{kSecret}.substr(1))));
  }
}

TEST_F(Keys, AllowListGrowsAndKeepsComments) {
  const AllowedKey one{"rack7", kPublic, {Role::kExecutor, Role::kActor}};
  const AllowedKey two{"desk", make_key_pair("").public_key, {Role::kOperator}};
  ASSERT_TRUE(add_to_allow_list(at("allowed.toml"), one, false).ok());
  std::ofstream{at("allowed.toml"), std::ios::app} << "# Ada's rack";
  ASSERT_TRUE(add_to_allow_list(at("allowed.toml"), two, false).ok());
  const auto list = load_allow_list(at("allowed.toml"));
  ASSERT_TRUE(list.ok()) << list.error().context;
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ(list->at(0).roles, one.roles);
  EXPECT_EQ(to_text(list->at(0).roles), "executor, actor");
  EXPECT_EQ(list->at(1).public_key, two.public_key);
  const auto text = read_file(at("allowed.toml"));
  EXPECT_THAT((std::string{reinterpret_cast<const char*>(text->data()), text->size()}),
              HasSubstr("# Ada's rack"));
  EXPECT_FALSE(add_to_allow_list(at("allowed.toml"), {"desk", two.public_key, {Role::kActor}}, false).ok());
  const AllowedKey newer{"rack7", make_key_pair("").public_key, {Role::kExecutor}};
  ASSERT_TRUE(add_to_allow_list(at("allowed.toml"), newer, true).ok());
  const auto replaced = load_allow_list(at("allowed.toml"));
  ASSERT_EQ(replaced->size(), 2u);
  EXPECT_EQ(replaced->at(1).public_key, newer.public_key);
}

TEST_F(Keys, AllowListThatOthersMayWriteIsRefused) {
  const auto list = load_allow_list(file("allowed.toml", "", 0664));
  ASSERT_FALSE(list.ok());
  EXPECT_THAT(list.error().context,
              HasSubstr("other users can write it and grant themselves access; chmod go-w"));
}

TEST(AllowList, NamesFileLineAndCure) {
  const std::string key = std::string{"[[key]]\nname = \"a\"\npublic = \""} + kPublic + "\"\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {key + "roles = [\"executer\"]\n", "list:4: 'roles' role 'executer': is unknown"},
      {key + "roles = []\n", "list:4: 'roles' is empty"},
      {key, "'roles' is empty"},
      {"[[key]]\nname = \"a\"\npublic = \"short\"\nroles = [\"actor\"]\n", "list:3: 'public' is not a key"},
      {key + "roles = [\"actor\"]\n" + key + "roles = [\"actor\"]\n", "is a duplicate"},
      {"[[keys]]\n", "unknown key 'keys'"},
      {"key = 3\n", "must be a list of tables"}};
  for (const auto& [text, expected] : cases) {
    const auto list = parse_allow_list(text, "list");
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.error().context, HasSubstr(expected));
  }
  EXPECT_TRUE(parse_allow_list("", "list").ok()) << "it admits no key";
}

}  // namespace
}  // namespace emplace
