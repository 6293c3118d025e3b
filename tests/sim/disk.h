#pragma once
// A disk in memory beneath SQLite: what was not synced may be lost, in part and in any order, when its
// process dies; it can be slow, full and failing. The run database above it is the real one.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"

namespace emplace::sim_test {

/// SQLite opens every database on the newest one. Thread: one.
class Disk {
 public:
  explicit Disk(std::uint64_t seed);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// The process that had files open is gone: open handles do nothing from now on; of what was not synced,
  /// any part may be there.
  void crash();

  bool full = false;              ///< Writes that need more room fail (ENOSPC).
  double sync_fails = 0;          ///< Probability of each (EIO).
  std::function<void()> on_sync;  ///< Called for each that reaches the disk.

  /// The files as they are, to begin another disk with.
  struct Image;
  std::shared_ptr<const Image> image() const;
  void load(const Image& image);

  struct File;
  struct Handle;

 private:
  friend struct DiskVfs;
  std::map<std::string, std::shared_ptr<File>> files_;
  std::uint64_t life_ = 0;
  Rng rng_;
  Rng entropy_;  ///< What SQLite is given for its own draws.
};

struct Disk::Image {
  std::map<std::string, std::vector<std::uint8_t>> files;
};

}  // namespace emplace::sim_test
