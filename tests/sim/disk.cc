#include "tests/sim/disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"

namespace emplace::sim_test {
namespace {

using Content = std::vector<std::uint8_t>;
constexpr std::size_t kSector = 512;

Disk* mounted = nullptr;

}  // namespace

/// State that the processes that have a file open share: locks on it, and the index of its write-ahead log
/// with its own locks. Not on the disk.
struct Shared {
  std::vector<std::unique_ptr<std::uint8_t[]>> regions;
  std::map<const sqlite3_file*, int> locks;  // Key: the open file; value: SQLITE_LOCK_SHARED and up.
  struct Slot {
    std::set<const sqlite3_file*> readers;
    const sqlite3_file* writer = nullptr;
  };
  std::array<Slot, SQLITE_SHM_NLOCK> slots;

  bool others_have(const sqlite3_file* me, int level) const {
    return std::any_of(locks.begin(), locks.end(),
                       [&](const auto& lock) { return lock.first != me && lock.second >= level; });
  }
  int lock(const sqlite3_file* me, int level) {
    // A lock above this level excludes the request: readers are admitted until a writer waits.
    const int excluded = level == SQLITE_LOCK_SHARED      ? SQLITE_LOCK_PENDING
                         : level == SQLITE_LOCK_EXCLUSIVE ? SQLITE_LOCK_SHARED
                                                          : SQLITE_LOCK_RESERVED;
    if (others_have(me, excluded)) return SQLITE_BUSY;
    locks[me] = std::max(locks[me], level);
    return SQLITE_OK;
  }
  void unlock(const sqlite3_file* me, int level) {
    level == SQLITE_LOCK_NONE ? void(locks.erase(me)) : void(locks[me] = level);
  }
  int lock_slots(const sqlite3_file* me, std::size_t first, std::size_t count, int flags) {
    const std::span<Slot> wanted = std::span{slots}.subspan(first, count);
    const bool exclusive = (flags & SQLITE_SHM_EXCLUSIVE) != 0;
    for (Slot& slot : wanted) {
      const bool read = slot.readers.size() > slot.readers.count(me);
      if ((flags & SQLITE_SHM_LOCK) != 0 &&
          ((slot.writer != nullptr && slot.writer != me) || (exclusive && read)))
        return SQLITE_BUSY;
    }
    for (Slot& slot : wanted) {
      if ((flags & SQLITE_SHM_UNLOCK) != 0) {
        exclusive ? void(slot.writer = nullptr) : void(slot.readers.erase(me));
      } else {
        exclusive ? void(slot.writer = me) : void(slot.readers.insert(me));
      }
    }
    return SQLITE_OK;
  }
  void forget(const sqlite3_file* me) {
    locks.erase(me);
    for (Slot& slot : slots) {
      slot.readers.erase(me);
      if (slot.writer == me) slot.writer = nullptr;
    }
  }
};

struct Disk::File {
  struct Write {
    std::size_t offset;
    Content bytes;     // Empty for a truncation.
    bool cut = false;  // Truncates to `offset` bytes.
  };
  Content now;      // As the process sees it.
  Content durable;  // As the disk has it for certain.
  std::vector<Write> unsynced;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();

  static void apply(Content& to, const Write& write, std::size_t bytes) {
    if (write.cut) return to.resize(write.offset);
    if (to.size() < write.offset + bytes) to.resize(write.offset + bytes);
    std::copy_n(write.bytes.begin(), bytes, to.begin() + static_cast<std::ptrdiff_t>(write.offset));
  }
  /// Applies one sector of a write, or the part of the sector that the write covers.
  static void apply_sector(Content& to, const Write& write, std::size_t sector) {
    const std::size_t from = std::max(write.offset, sector * kSector);
    const std::size_t until = std::min(write.offset + write.bytes.size(), (sector + 1) * kSector);
    if (to.size() < until) to.resize(until);
    std::copy(write.bytes.begin() + static_cast<std::ptrdiff_t>(from - write.offset),
              write.bytes.begin() + static_cast<std::ptrdiff_t>(until - write.offset),
              to.begin() + static_cast<std::ptrdiff_t>(from));
  }
  /// Later reads return what the disk has.
  void reread_sector(std::size_t sector) {
    for (std::size_t i = sector * kSector; i < std::min(now.size(), (sector + 1) * kSector); ++i)
      now[i] = i < durable.size() ? durable[i] : 0;
  }
};

/// SQLite's sqlite3_file, made by xOpen.
struct Disk::Handle : sqlite3_file {
  std::shared_ptr<Disk::File> file;
  Disk* disk;
  std::uint64_t incarnation;
  std::shared_ptr<Shared> shared;  // An ended process keeps its own.
  bool syncs_name;  // Its first sync syncs the directory too, as SQLite's unixSync does for logs.
};

/// The functions of a VFS of SQLite.
struct DiskVfs {
  static Disk::Handle& handle(sqlite3_file* file) { return *static_cast<Disk::Handle*>(file); }
  static bool dead(const Disk::Handle& h) {
    return h.disk != mounted || h.incarnation != mounted->incarnation_;
  }

  static int close(sqlite3_file* file) {
    handle(file).shared->forget(file);
    return handle(file).~Handle(), SQLITE_OK;
  }
  static int read(sqlite3_file* file, void* to, int size, sqlite3_int64 at) {
    Disk& disk = *handle(file).disk;
    if (disk.read_fails > 0 && disk.later_.uniform_double() < disk.read_fails) return SQLITE_IOERR_READ;
    const Content& content = handle(file).file->now;
    const auto offset = static_cast<std::size_t>(at), wanted = static_cast<std::size_t>(size);
    const std::size_t there = offset < content.size() ? std::min(wanted, content.size() - offset) : 0;
    if (there > 0) std::memcpy(to, content.data() + offset, there);
    if (there == wanted) return SQLITE_OK;
    std::memset(static_cast<std::uint8_t*>(to) + there, 0, wanted - there);
    return SQLITE_IOERR_SHORT_READ;
  }
  static int write(sqlite3_file* file, const void* from, int size, sqlite3_int64 at) {
    Disk::Handle& h = handle(file);
    if (dead(h)) return SQLITE_IOERR_WRITE;
    const auto offset = static_cast<std::size_t>(at);
    const auto* bytes = static_cast<const std::uint8_t*>(from);
    if (h.disk->full && offset + static_cast<std::size_t>(size) > h.file->now.size()) return SQLITE_FULL;
    h.file->unsynced.push_back({offset, Content(bytes, bytes + size)});
    Disk::File::apply(h.file->now, h.file->unsynced.back(), static_cast<std::size_t>(size));
    return SQLITE_OK;
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    Disk::Handle& h = handle(file);
    if (dead(h)) return SQLITE_IOERR_TRUNCATE;
    h.file->unsynced.push_back({static_cast<std::size_t>(size), {}, true});
    Disk::File::apply(h.file->now, h.file->unsynced.back(), 0);
    return SQLITE_OK;
  }
  static int sync(sqlite3_file* file, int) {
    Disk::Handle& h = handle(file);
    if (dead(h)) return SQLITE_IOERR_FSYNC;
    if (h.disk->on_sync) h.disk->on_sync();
    if (h.disk->sync_fails > 0 && h.disk->rng_.uniform_double() < h.disk->sync_fails) {
      if (h.disk->failed_sync_loses) h.disk->lose_dirty(*h.file);
      return SQLITE_IOERR_FSYNC;
    }
    for (const auto& one : h.file->unsynced) Disk::File::apply(h.file->durable, one, one.bytes.size());
    h.file->unsynced.clear();
    if (std::exchange(h.syncs_name, false)) h.disk->sync_directory();
    return SQLITE_OK;
  }
  static int size(sqlite3_file* file, sqlite3_int64* out) {
    *out = static_cast<sqlite3_int64>(handle(file).file->now.size());
    return SQLITE_OK;
  }
  static int lock(sqlite3_file* file, int level) { return handle(file).shared->lock(file, level); }
  static int unlock(sqlite3_file* file, int level) {
    return handle(file).shared->unlock(file, level), SQLITE_OK;
  }
  static int reserved(sqlite3_file* file, int* out) {
    return *out = handle(file).shared->others_have(nullptr, SQLITE_LOCK_RESERVED) ? 1 : 0, SQLITE_OK;
  }
  static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int sector(sqlite3_file*) { return static_cast<int>(kSector); }
  // SQLite assumes this of any disk on Unix: bytes that are not written to stay as they are.
  static int traits(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }
  static int shm_map(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
    if (handle(file).disk->exhausted == Exhausted::kMemory) return SQLITE_IOERR_NOMEM;
    auto& shared = handle(file).shared->regions;
    const auto wanted = static_cast<std::size_t>(region);
    while (shared.size() <= wanted && extend != 0)
      shared.push_back(std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(size)));
    *out = wanted < shared.size() ? shared[wanted].get() : nullptr;
    return SQLITE_OK;
  }
  static int shm_lock(sqlite3_file* file, int first, int count, int flags) {
    return handle(file).shared->lock_slots(file, static_cast<std::size_t>(first),
                                           static_cast<std::size_t>(count), flags);
  }
  static void shm_barrier(sqlite3_file*) {}
  static int shm_unmap(sqlite3_file* file, int gone) {
    if (gone != 0 && !dead(handle(file))) handle(file).shared->regions.clear();
    return SQLITE_OK;
  }

  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    static const sqlite3_io_methods methods{2,       &close,   &read,     &write,       &truncate, &sync,
                                            &size,   &lock,    &unlock,   &reserved,    &control,  &sector,
                                            &traits, &shm_map, &shm_lock, &shm_barrier, &shm_unmap};
    file->pMethods = nullptr;
    if (mounted->exhausted == Exhausted::kDescriptors) return SQLITE_CANTOPEN;
    if (mounted->exhausted == Exhausted::kMemory) return SQLITE_NOMEM;
    const std::string path = name == nullptr ? "" : name;
    auto found = mounted->files_.find(path);
    if (name != nullptr && found == mounted->files_.end() && (flags & SQLITE_OPEN_CREATE) == 0)
      return SQLITE_CANTOPEN;
    const bool made = found == mounted->files_.end();
    std::shared_ptr<Disk::File> content = made ? std::make_shared<Disk::File>() : found->second;
    if (name != nullptr && made) mounted->set_name(path, content);
    constexpr int kLogs = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
    const bool syncs_name = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & kLogs) != 0;
    const auto shared = content->shared;
    new (file)
        Disk::Handle{{&methods}, std::move(content), mounted, mounted->incarnation_, shared, syncs_name};
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs*, const char* name, int sync_directory) {
    if (!mounted->files_.contains(name)) return SQLITE_IOERR_DELETE_NOENT;
    mounted->set_name(name, nullptr);
    if (sync_directory != 0) mounted->sync_directory();
    return SQLITE_OK;
  }
  static int access(sqlite3_vfs*, const char* name, int, int* out) {
    return *out = mounted->files_.contains(name) ? 1 : 0, SQLITE_OK;
  }
  static int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
    return sqlite3_snprintf(size, out, "%s", name), SQLITE_OK;
  }
  static int randomness(sqlite3_vfs*, int size, char* out) {
    for (int i = 0; i < size; ++i) out[i] = static_cast<char>(mounted->entropy_());
    return size;
  }
  static int nap(sqlite3_vfs*, int) { return 0; }
  static int time(sqlite3_vfs*, double* out) { return *out = 2440587.5, SQLITE_OK; }
  static int last_error(sqlite3_vfs*, int, char*) { return 0; }

  static void install() {
    static sqlite3_vfs vfs{
        1,       sizeof(Disk::Handle), 512,     nullptr, "simulated", nullptr, &open,       &remove,
        &access, &full_path,           nullptr, nullptr, nullptr,     nullptr, &randomness, &nap,
        &time,   &last_error};
    static const int registered = sqlite3_vfs_register(&vfs, /*makeDflt=*/1);
    EMPLACE_CHECK(registered == SQLITE_OK, "SQLite takes the simulated disk");
  }
};

Disk::Disk(std::uint64_t seed)
    : rng_{seed, Purpose::kSimulation, 3},
      entropy_{seed, Purpose::kSimulation, 7},
      later_{seed, Purpose::kSimulation, 9} {
  DiskVfs::install();
  mounted = this;
  sqlite3_randomness(0, nullptr);  // Reseeds SQLite from this disk, so that earlier seeds have no effect.
}
Disk::~Disk() { mounted = nullptr; }

void Disk::set_name(const std::string& name, std::shared_ptr<File> file) {
  unsynced_names_.push_back({name, file});
  if (file) {
    files_[name] = std::move(file);
  } else {
    files_.erase(name);
  }
  if (!names_need_sync) sync_directory();
}

void Disk::sync_directory() {
  safe_names_ = files_;
  unsynced_names_.clear();
}

/// The directory after a power cut: any part of the changes since its last sync.
void Disk::forget_names() {
  for (NameChange& change : std::exchange(unsynced_names_, {})) {
    if (later_.below(2) == 0) continue;
    if (change.file) {
      safe_names_[change.name] = std::move(change.file);
    } else {
      safe_names_.erase(change.name);
    }
  }
  files_ = safe_names_;
}

void Disk::cut_power() {
  ++incarnation_;
  forget_names();
  for (auto& [path, file] : files_) {
    auto after = std::make_shared<File>();
    after->durable = std::move(file->durable);
    // The disk has written nothing, some sectors, or all of each write.
    const double kept = rng_.uniform_double();
    for (const File::Write& write : file->unsynced) {
      const std::size_t sectors = (write.bytes.size() + kSector - 1) / kSector;
      if (rng_.uniform_double() >= kept) continue;
      const bool torn = rng_.uniform_double() < 0.2;
      const std::size_t some = torn ? rng_.below(static_cast<std::uint32_t>(sectors + 1)) : sectors;
      File::apply(after->durable, write, std::min(write.bytes.size(), some * kSector));
    }
    after->now = after->durable;
    file = std::move(after);
  }
  safe_names_ = files_;
}

void Disk::kill_process() {
  ++incarnation_;
  for (auto& [path, file] : files_) file->shared = std::make_shared<Shared>();
}

/// After a sync that failed. Truncations are kept: a file system journals lengths apart from data.
void Disk::lose_dirty(File& file) {
  const double written = later_.uniform_double();  // Share of the sectors that the disk took.
  const double forgotten =
      later_.below(2) == 0 ? 0
                           : later_.uniform_double();  // Share of the other sectors that the kernel keeps.
  std::set<std::size_t> lost;
  for (const File::Write& write : std::exchange(file.unsynced, {})) {
    if (write.cut) {
      File::apply(file.durable, write, 0);
      continue;
    }
    const std::size_t last = (write.offset + write.bytes.size() - 1) / kSector;
    for (std::size_t sector = write.offset / kSector; sector <= last; ++sector) {
      if (later_.uniform_double() < written) {
        File::apply_sector(file.durable, write, sector);
      } else {
        lost.insert(sector);
      }
    }
  }
  for (const std::size_t sector : lost)
    if (later_.uniform_double() < forgotten) file.reread_sector(sector);
}

std::optional<std::string> Disk::rot() {
  std::vector<std::pair<const std::string*, File*>> candidates;
  for (const auto& [path, file] : files_)
    if (!file->durable.empty() && path.find("run.db") != std::string::npos)
      candidates.emplace_back(&path, file.get());
  if (candidates.empty()) return std::nullopt;
  const auto [path, file] = candidates[later_.below(static_cast<std::uint32_t>(candidates.size()))];
  const std::size_t byte = later_.below(static_cast<std::uint32_t>(file->durable.size()));
  const auto bit = static_cast<std::uint8_t>(1u << later_.below(8));
  const std::size_t sector = byte / kSector;
  for (const File::Write& write : file->unsynced)
    if (write.cut ||
        (write.offset / kSector <= sector && sector <= (write.offset + write.bytes.size() - 1) / kSector))
      return std::nullopt;
  file->durable[byte] ^= bit;
  if (byte < file->now.size()) file->now[byte] ^= bit;
  return *path + ", byte " + std::to_string(byte);
}

RealFiles::RealFiles() { sqlite3_vfs_register(sqlite3_vfs_find("unix"), /*makeDflt=*/1); }
RealFiles::~RealFiles() { sqlite3_vfs_register(sqlite3_vfs_find("simulated"), /*makeDflt=*/1); }

std::shared_ptr<const Disk::Image> Disk::image() const {
  auto all = std::make_shared<Image>();
  for (const auto& [path, file] : files_) all->files[path] = file->now;
  return all;
}

void Disk::load(const Image& image) {
  for (const auto& [path, content] : image.files) {
    auto file = std::make_shared<File>();
    file->now = file->durable = content;
    files_[path] = std::move(file);
  }
  sync_directory();
}

}  // namespace emplace::sim_test
