#pragma once
/// An operation of a process on the files below the watched folder, as the layer (layer.cc) appends it to the
/// log: this header, then the first path, the second path and the written bytes.

#include <cstdint>

namespace emplace::powercut {

enum class What : std::uint32_t {
  kCreated = 1,   ///< `path` is a new, empty file with inode `inode`.
  kMadeFolder,    ///< Folder `path` was created.
  kWrote,         ///< The bytes were written at `offset` of inode `inode`.
  kCut,           ///< Inode `inode` now has `offset` bytes.
  kSynced,        ///< Inode `inode` was synced (fsync, fdatasync), with all that was in the log at `covers`.
  kSyncedFolder,  ///< The entries of the folder `path` were synced in the same way.
  kRenamed,       ///< `path` was renamed to `second_path`.
  kRemoved,       ///< `path` was removed.
  kPrinted,       ///< The bytes were written to standard output, which acknowledges.
};

struct OperationHeader {
  What what;
  std::uint32_t process;
  std::uint64_t inode;
  std::uint64_t offset;
  std::uint64_t covers;  ///< Length of the log in bytes at the start of a sync.
  std::uint32_t path_bytes, second_path_bytes;
  std::uint64_t data_bytes;
};

// Environment variables of the layer: the watched folder, and the log that all processes append to.
inline constexpr const char* kFolderVariable = "EMPLACE_POWERCUT_FOLDER";
inline constexpr const char* kLogVariable = "EMPLACE_POWERCUT_LOG";

}  // namespace emplace::powercut
