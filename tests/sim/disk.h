#pragma once
// A disk in memory below SQLite, with the kernel's page cache. Unsynced data may be lost, in part and in any
// order, when the power fails; the disk can be slow, full and failing, and its bits may flip. The run
// database above it is the real one.

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

/// The resource that is exhausted when a file is opened.
enum class Exhausted : std::uint8_t { kNothing, kDescriptors, kMemory };

/// SQLite opens every database on the newest one. Thread: one.
class Disk {
 public:
  explicit Disk(std::uint64_t seed);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// The power fails, and the process that had files open ends: open handles do nothing from now on; any part
  /// of the unsynced data may exist.
  void cut_power();
  /// Only the process ends (SIGKILL): its writes are in the kernel's memory.
  void kill_process();
  /// A bit of a record or of its log flips, on the disk and in the kernel's cache. Returns where; none: the
  /// bit would be in data that waits to be written.
  std::optional<std::string> rot();

  bool full = false;              ///< Writes that need more room fail (ENOSPC).
  double sync_fails = 0;          ///< Probability that a sync fails (EIO).
  std::function<void()> on_sync;  ///< Called for each sync that reaches the disk.
  /// After a failed sync the kernel marks dirty data as written: the disk has any part of it, and no later
  /// sync writes it. Reads return the cached data or what the disk has. False: the next sync writes it all.
  bool failed_sync_loses = false;
  /// Creation, deletion and renaming of files are durable once their directory is synced; a power cut undoes
  /// any of the later ones. False: they are durable at once.
  bool names_need_sync = false;
  double read_fails = 0;  ///< Probability that a read fails (EIO).
  Exhausted exhausted = Exhausted::kNothing;

  /// The files as they are, to start another disk with.
  struct Image;
  std::shared_ptr<const Image> image() const;
  void load(const Image& image);

  struct File;
  struct Handle;

 private:
  friend struct DiskVfs;
  using Names = std::map<std::string, std::shared_ptr<File>>;
  /// A change of the directory since its last sync.
  struct NameChange {
    std::string name;
    std::shared_ptr<File> file;  // Null if it was deleted.
  };
  void set_name(const std::string& name, std::shared_ptr<File> file);
  void sync_directory();
  void forget_names();
  void lose_dirty(File& file);

  Names files_;       // The directory as processes see it.
  Names safe_names_;  // The directory that is durable on the disk.
  std::vector<NameChange> unsynced_names_;
  std::uint64_t incarnation_ = 0;
  Rng rng_;
  Rng entropy_;  ///< Source of SQLite's own random numbers.
  Rng later_;    ///< For features that are newer than the kept seeds.
};

/// While it exists, SQLite opens real files.
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
