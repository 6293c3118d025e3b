#pragma once
// A disk in memory beneath SQLite, and the kernel that stands before it. What was not synced may be lost, in
// part and in any order, when the power fails; the disk can be slow, full and failing, and its bits may flip.
// The run database above it is the real one.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"

namespace emplace::sim_test {

/// What the machine has no more of when a file is to be opened.
enum class Exhausted : std::uint8_t { kNothing, kDescriptors, kMemory };

/// SQLite opens every database on the newest one. Thread: one.
class Disk {
 public:
  explicit Disk(std::uint64_t seed);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// The power fails, and the process that had files open is gone: open handles do nothing from now on; of
  /// what was not synced, any part may be there.
  void cut_power();
  /// That process alone is gone (SIGKILL): what it wrote is in the kernel's memory.
  void kill_process();
  /// A bit of a record or of its log flips, on the disk and in what the kernel shows. Returns where; none: it
  /// would be in what waits to be written.
  std::optional<std::string> rot();

  bool full = false;              ///< Writes that need more room fail (ENOSPC).
  double sync_fails = 0;          ///< Probability of each (EIO).
  std::function<void()> on_sync;  ///< Called for each that reaches the disk.
  /// After a sync that failed the kernel takes what was dirty for written: the disk has any part of it, and
  /// no later sync writes it. Reads return it still, or what the disk has. False: the next sync writes it
  /// all.
  bool failed_sync_loses = false;
  /// Files that were made, deleted or renamed are so for certain once their directory is synced; a power cut
  /// undoes any of what came after. False: at once.
  bool names_need_sync = false;
  double read_fails = 0;  ///< Probability of each (EIO).
  Exhausted exhausted = Exhausted::kNothing;

  /// The files as they are, to begin another disk with.
  struct Image;
  std::shared_ptr<const Image> image() const;
  void load(const Image& image);

  struct File;
  struct Handle;

 private:
  friend struct DiskVfs;
  using Names = std::map<std::string, std::shared_ptr<File>>;
  /// Of the directory, since it was last synced.
  struct NameChange {
    std::string name;
    std::shared_ptr<File> file;  // Null: it was deleted.
  };
  void set_name(const std::string& name, std::shared_ptr<File> file);
  void sync_directory();
  void forget_names();
  void lose_dirty(File& file);

  Names files_;       // As processes see them.
  Names safe_names_;  // As the disk has the directory for certain.
  std::vector<NameChange> unsynced_names_;
  std::uint64_t life_ = 0;
  Rng rng_;
  Rng entropy_;  ///< What SQLite is given for its own draws.
  Rng later_;    ///< For what is younger than the seeds that are kept.
};

/// While it lives, SQLite opens real files.
class RealFiles {
 public:
  RealFiles();
  ~RealFiles();
  RealFiles(const RealFiles&) = delete;
  RealFiles& operator=(const RealFiles&) = delete;
};

struct Disk::Image {
  std::map<std::string, std::vector<std::uint8_t>> files;
};

}  // namespace emplace::sim_test
