// Goal: a file in the store is whole or absent, its transfer continues after an interruption, and two stores
// may fetch it at once. Method: a real folder, interrupted and damaged by the test.
#include "launcher/cluster/files/file_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "base/hash.h"
#include "launcher/cluster/files/manifest.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

Bytes bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span{text});
  return {raw.begin(), raw.end()};
}

class FolderStoreTest : public ::testing::Test {
 protected:
  const testing::ScratchFolder scratch_{"file_store"};
  const Bytes content_ = bytes_of("what a graph is made of");
  const messages::FileFacts file_{"files/0/graph.json", sha256_hex(content_), content_.size()};
  const std::filesystem::path folder_ = scratch_.path() / "files";
  std::span<const std::byte> part(std::size_t from, std::size_t size) const {
    return std::span{content_}.subspan(from, size);
  }
};

TEST_F(FolderStoreTest, ContinuesAfterAnInterruption) {
  {
    FolderStore store{folder_};
    EXPECT_FALSE(store.has(file_));
    EXPECT_EQ(store.received(file_), 0u);
    ASSERT_TRUE(store.append(file_, part(0, 9)).ok());
  }
  FolderStore store{folder_};
  EXPECT_FALSE(store.has(file_));
  ASSERT_EQ(store.received(file_), 9u);
  ASSERT_TRUE(store.append(file_, part(9, content_.size() - 9)).ok());
  ASSERT_TRUE(store.finish(file_).ok());
  EXPECT_TRUE(store.has(file_));
  EXPECT_EQ(read_file(store.path_of(file_)).value(), content_);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{folder_}) ++entries;
  EXPECT_EQ(entries, 1u);
}

TEST_F(FolderStoreTest, DamagedFilesAreAbsent) {
  FolderStore store{folder_};
  ASSERT_TRUE(store.append(file_, part(0, 9)).ok());
  ASSERT_TRUE(store.append(file_, part(0, content_.size() - 9)).ok());
  const auto finished = store.finish(file_);
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().code, Errc::kInvalid);
  EXPECT_EQ(store.received(file_), 0u);
  ASSERT_TRUE(store.append(file_, content_).ok());
  ASSERT_TRUE(store.finish(file_).ok());
  EXPECT_TRUE(store.has(file_));
  std::ofstream{store.path_of(file_)} << std::string(content_.size(), 'x');
  EXPECT_FALSE(store.has(file_));
  EXPECT_FALSE(std::filesystem::exists(store.path_of(file_)));
}

TEST_F(FolderStoreTest, ConcurrentTransfersDoNotMix) {
  FolderStore one{folder_}, two{folder_};
  ASSERT_TRUE(one.append(file_, part(0, 9)).ok());
  EXPECT_EQ(two.received(file_), 0u);
  ASSERT_TRUE(two.append(file_, part(0, 5)).ok());
  ASSERT_TRUE(one.append(file_, part(9, content_.size() - 9)).ok());
  ASSERT_TRUE(one.finish(file_).ok());
  ASSERT_TRUE(two.append(file_, part(5, content_.size() - 5)).ok());
  ASSERT_TRUE(two.finish(file_).ok());
  EXPECT_EQ(read_file(one.path_of(file_)).value(), content_);
}

TEST_F(FolderStoreTest, ManifestStaysInItsFolder) {
  FolderStore store{folder_};
  for (const char* path : {"../escaped", "/tmp/escaped", "a/../../b", "config.toml", ""}) {
    messages::ManifestDelivered manifest;
    manifest.files = {{path, file_.sha256, file_.bytes}};
    const auto laid_out = unpack_manifest(manifest, store, scratch_.path() / "node");
    ASSERT_FALSE(laid_out.ok()) << path;
    EXPECT_EQ(laid_out.error().code, Errc::kInvalid) << path;
  }
}

}  // namespace
}  // namespace emplace::launcher
