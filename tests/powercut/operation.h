#pragma once
/// One thing that a process did to the files below the watched folder, as the layer (layer.cc) appends it to
/// the log: this header, then the first path, the second path and the bytes written.

#include <cstdint>

namespace emplace::powercut {

enum class What : std::uint32_t {
  kCreated = 1,   ///< `path` is a new, empty file with inode `inode`.
  kMadeFolder,    ///< `path`.
  kWrote,         ///< The bytes, at `offset` of inode `inode`.
  kCut,           ///< Inode `inode` now has `offset` bytes.
  kSynced,        ///< fsync or fdatasync of inode `inode`; covers what was in the log at `covers`.
  kSyncedFolder,  ///< The same, of the entries of the folder `path`.
  kRenamed,       ///< `path` to `second_path`.
  kRemoved,       ///< `path`.
  kSaid,          ///< The bytes went to standard output: the process told the world.
};

struct OperationHeader {
  What what;
  std::uint32_t process;
  std::uint64_t inode;
  std::uint64_t offset;
  std::uint64_t covers;  ///< [bytes of log]
  std::uint32_t path_bytes, second_path_bytes;
  std::uint64_t data_bytes;
};

// Environment variables of the layer: the watched folder, and the log that all processes append to.
inline constexpr const char* kFolderVariable = "EMPLACE_POWERCUT_FOLDER";
inline constexpr const char* kLogVariable = "EMPLACE_POWERCUT_LOG";

}  // namespace emplace::powercut
