#pragma once

#include <filesystem>
#include <string>

#include "actors/library.h"

namespace emplace::launcher {

/// Files by their hash in a folder of the user's, kept across runs. Several processes may share it: one
/// writes a file at a time, the others of the same moment write copies of their own. Thread: one.
class FolderStore final : public actors::FileStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_{std::move(folder)} {}
  ~FolderStore() override;
  FolderStore(const FolderStore&) = delete;
  FolderStore& operator=(const FolderStore&) = delete;

  bool has(const messages::FileFacts& file) override;
  std::uint64_t begun(const messages::FileFacts& file) override;
  Result<Unit> append(const messages::FileFacts& file, std::span<const std::byte> bytes) override;
  Result<Unit> finish(const messages::FileFacts& file) override;

  /// Where a file lies once it is whole.
  std::filesystem::path path_of(const messages::FileFacts& file) const { return folder_ / file.sha256; }

 private:
  Result<Unit> open(const messages::FileFacts& file);
  void close();

  const std::filesystem::path folder_;
  std::string writing_;         // Hash of the file that is open; empty: none.
  std::filesystem::path part_;  // Where it is written until it is whole.
  int fd_ = -1;
};

/// $XDG_CACHE_HOME/emplace, or ~/.cache/emplace. Errors (kInvalid): neither is known.
Result<std::filesystem::path> cache_folder();

}  // namespace emplace::launcher
