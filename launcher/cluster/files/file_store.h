#pragma once

#include <filesystem>
#include <string>

#include "actors/library.h"

namespace emplace::launcher {

/// Content-addressed files in a folder of the user, kept across runs. Several processes may share it: one
/// writes the common partial file, others that fetch it at the same time write their own copies. Thread: one.
class FolderStore final : public actors::FileStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_{std::move(folder)} {}
  ~FolderStore() override;
  FolderStore(const FolderStore&) = delete;
  FolderStore& operator=(const FolderStore&) = delete;

  bool has(const messages::FileFacts& file) override;
  std::uint64_t received(const messages::FileFacts& file) override;
  Result<Unit> append(const messages::FileFacts& file, std::span<const std::byte> bytes) override;
  Result<Unit> finish(const messages::FileFacts& file) override;

  /// Returns the path of a complete file.
  std::filesystem::path path_of(const messages::FileFacts& file) const { return folder_ / file.sha256; }

 private:
  Result<Unit> open(const messages::FileFacts& file);
  void close();

  const std::filesystem::path folder_;
  std::string writing_;         // Hash of the open file; empty: none.
  std::filesystem::path part_;  // Path of its partial file.
  int fd_ = -1;
};

/// Returns $XDG_CACHE_HOME/emplace, or ~/.cache/emplace. Errors (kInvalid): both variables are unset.
Result<std::filesystem::path> cache_folder();

}  // namespace emplace::launcher
