#pragma once
/// A folder as a power cut leaves it: what was synced, and any part of the rest. Made from the log of
/// everything that processes did to it (layer.cc).

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
    ino_t inode = 0;  ///< As it was read; 0: never on a disk.
    Bytes content;
  };
  std::map<std::string, File> files;
  std::set<std::string> folders;

  static Tree read(const std::filesystem::path& folder);
  /// Replaces everything in `folder`.
  void write(const std::filesystem::path& folder) const;
};

/// What processes did, in order.
class Log {
 public:
  struct Operation {
    What what{};
    ino_t inode = 0;
    std::uint64_t offset = 0, covers = 0, at = 0;  ///< `at`: of its record in the log [bytes].
    std::string path, second_path;
    std::span<const std::byte> data;  ///< Of the log's own bytes.
  };
  explicit Log(const std::filesystem::path& file);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const std::vector<Operation>& operations() const { return operations_; }
  /// What processes said on standard output within the first `count` operations.
  std::string said(std::size_t count) const;

 private:
  Bytes bytes_;
  std::vector<Operation> operations_;
};

/// The folder that began as `begin`, after the first `count` operations and no power cut.
Tree uncut(const Tree& begin, const Log& log, std::size_t count);

/// The same after a power cut. What was synced is there: a file's bytes by a sync of the file, its name by a
/// sync of its folder. Of the rest `rng` draws what is: for each folder nothing, the first few or any of its
/// changes; for each file the same, or any of the 512-byte sectors that were written. SQLite's shared memory
/// (*-shm) has any content.
Tree after_power_cut(const Tree& begin, const Log& log, std::size_t count, Rng& rng);

}  // namespace emplace::powercut
