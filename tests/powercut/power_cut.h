#pragma once
/// A folder as a power cut leaves it: everything synced, and any part of the rest. Made from the log of all
/// operations of processes on it (layer.cc).

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "tests/powercut/operation.h"

namespace emplace::powercut {

/// Files and folders by their paths relative to one folder.
struct Tree {
  struct File {
    ino_t inode = 0;  ///< Number when the tree was read; 0: not read from a disk.
    Bytes content;
  };
  std::map<std::string, File> files;
  std::set<std::string> folders;

  static Tree read(const std::filesystem::path& folder);
  /// Replaces everything in `folder`.
  void write(const std::filesystem::path& folder) const;
};

/// Operations of processes, in order.
class Log {
 public:
  struct Operation {
    What what{};
    ino_t inode = 0;
    std::uint64_t offset = 0, covers = 0, at = 0;  ///< `at`: offset of its record in the log.
    std::string path, second_path;
    std::span<const std::byte> data;  ///< Points into the log's own bytes.
  };
  explicit Log(const std::filesystem::path& file);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const std::vector<Operation>& operations() const { return operations_; }
  /// Standard output of the processes within the first `count` operations.
  std::string printed(std::size_t count) const;

 private:
  Bytes bytes_;
  std::vector<Operation> operations_;
};

/// The folder that was `begin` at the start, after the first `count` operations and no power cut.
Tree uncut(const Tree& begin, const Log& log, std::size_t count);

/// The same after a power cut. Everything synced is kept: a file's bytes by a sync of the file, its name by a
/// sync of its folder. `rng` draws which part of the rest is kept: for each folder none, the first few or any
/// of its changes; for each file the same, or any of the written 512-byte sectors. SQLite's shared memory
/// (*-shm) has any content.
Tree after_power_cut(const Tree& begin, const Log& log, std::size_t count, Rng& rng);

}  // namespace emplace::powercut
