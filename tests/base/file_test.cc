// Goal: a file appears whole or not at all, with the mode that it had, and no other user decides where it
// goes. Method: real files in a private folder; another user's link only where the test may make one.
#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>

namespace emplace {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = (fs::temp_directory_path() / "emplace-file-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  static std::string text_of(const fs::path& file) {
    const auto bytes = read_file(file);
    return bytes ? std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()} : "unreadable";
  }
  static mode_t mode_of(const fs::path& file) {
    struct stat info {};
    EXPECT_EQ(::stat(file.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator{folder_}) all.insert(entry.path().filename().string());
    return all;
  }

  fs::path folder_;
};

TEST_F(FileTest, IdentityFollowsTheFileAndNotItsName) {
  const fs::path file = folder_ / "file", link = folder_ / "link", other = folder_ / "other";
  ASSERT_TRUE(write_file(file, "a").ok());
  ASSERT_TRUE(write_file(other, "a").ok());
  fs::create_symlink(file, link);
  const auto id = FileId::of(file);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(FileId::of(link), id);
  EXPECT_NE(FileId::of(other), id);
  const int folder = ::open(folder_.c_str(), O_RDONLY), held = ::open(file.c_str(), O_RDONLY);
  EXPECT_EQ(FileId::of(held), id);
  EXPECT_EQ(FileId::in(folder, "file"), id);
  fs::rename(other, file);
  EXPECT_EQ(FileId::of(held), id);
  EXPECT_NE(FileId::of(file), id);
  EXPECT_EQ(FileId::in(folder, "other"), std::nullopt);
  EXPECT_EQ(errno, ENOENT);
  ::close(held);
  ::close(folder);
  EXPECT_EQ(FileId::of(held), std::nullopt);
}

TEST_F(FileTest, KeepsTheModeOfWhatItReplaces) {
  const fs::path file = folder_ / "file";
  const mode_t old = ::umask(022);
  ASSERT_TRUE(write_file(file, "new").ok());
  EXPECT_EQ(mode_of(file), 0644u);
  for (const mode_t mode : {0600u, 0640u, 0664u, 0666u}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    ASSERT_TRUE(write_file(file, "again").ok());
    EXPECT_EQ(mode_of(file), mode);
    EXPECT_EQ(text_of(file), "again");
  }
  ASSERT_TRUE(write_private_file(file, "secret").ok());
  EXPECT_EQ(mode_of(file), 0600u);
  ::umask(077);
  ASSERT_TRUE(write_file(folder_ / "private", "x").ok());
  EXPECT_EQ(mode_of(folder_ / "private"), 0600u);
  ::umask(old);
}

TEST_F(FileTest, TemporaryFileIsInTheSameFolderWithARandomName) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    NewFile file{folder_ / "file"};
    file.write("x");
    const auto there = names();
    ASSERT_EQ(there.size(), 1u);
    EXPECT_TRUE(there.begin()->starts_with("file.part")) << *there.begin();
    EXPECT_EQ(there.begin()->find_first_not_of("0123456789", 9), std::string::npos)
        << "a run's end removes what killed processes left by this pattern";
    seen.insert(*there.begin());
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_TRUE(names().empty()) << "what was not committed is gone";
}

TEST_F(FileTest, FollowsALinkOfItsOwner) {
  ASSERT_TRUE(write_file(folder_ / "target", "old").ok());
  fs::create_symlink("target", folder_ / "link");
  ASSERT_TRUE(write_file(folder_ / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(text_of(folder_ / "target"), "new");
}

TEST_F(FileTest, RefusesAnotherUsersLinkInAWorldWritableFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's link";
  constexpr uid_t kNoActor = 65534;
  ASSERT_TRUE(write_file(folder_ / "victim", "precious").ok());
  fs::create_symlink("victim", folder_ / "link");
  ASSERT_EQ(::lchown((folder_ / "link").c_str(), kNoActor, kNoActor), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  const auto refused = write_file(folder_ / "link", "gone");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("is a link of another user"), std::string::npos)
      << refused.error().context;
  EXPECT_EQ(text_of(folder_ / "victim"), "precious");
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
  EXPECT_TRUE(write_file(folder_ / "link", "new").ok()) << "here only its owner can have put it";
}

TEST_F(FileTest, RefusesOtherThanRegularFiles) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(write_file(folder_ / "pipe", "x").ok());
  EXPECT_FALSE(write_file(folder_, "x").ok());
  EXPECT_FALSE(write_file(folder_ / "no-such-folder" / "file", "x").ok());
  EXPECT_EQ(names(), std::set<std::string>{"pipe"});
}

TEST_F(FileTest, SyncsFoldersUpToTheRoot) {
  fs::create_directories(folder_ / "a" / "b");
  EXPECT_TRUE(sync_folders(folder_ / "a" / "b").ok());
  const auto missing = sync_folders(folder_ / "none");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Errc::kIo);
}

}  // namespace
}  // namespace emplace
