#include "tests/sim/disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace emplace::sim_test {
namespace {

using Content = std::vector<std::uint8_t>;
constexpr std::size_t kSector = 512;

Disk* mounted = nullptr;

}  // namespace

struct Disk::File {
  struct Write {
    std::size_t offset;
    Content bytes;     // Of a truncation: none.
    bool cut = false;  // To `offset` bytes.
  };
  Content now;      // As the process sees it.
  Content durable;  // As the disk has it for certain.
  std::vector<Write> unsynced;
  std::vector<std::unique_ptr<std::uint8_t[]>>
      shared;       // The WAL's index: memory of the process, not of the disk.
  int sharers = 0;  // Handles that hold a lock; several of one process, as SQLite's are.

  static void apply(Content& to, const Write& write, std::size_t bytes) {
    if (write.cut) return to.resize(write.offset);
    if (to.size() < write.offset + bytes) to.resize(write.offset + bytes);
    std::copy_n(write.bytes.begin(), bytes, to.begin() + static_cast<std::ptrdiff_t>(write.offset));
  }
};

/// SQLite's sqlite3_file, made by xOpen.
struct Disk::Handle : sqlite3_file {
  std::shared_ptr<Disk::File> file;
  Disk* disk;
  std::uint64_t life;
  int locked = SQLITE_LOCK_NONE;
};

/// The functions that SQLite asks for.
struct DiskVfs {
  static Disk::Handle& handle(sqlite3_file* file) { return *static_cast<Disk::Handle*>(file); }
  static bool dead(const Disk::Handle& h) { return h.disk != mounted || h.life != mounted->life_; }

  static int close(sqlite3_file* file) {
    unlock(file, SQLITE_LOCK_NONE);
    return handle(file).~Handle(), SQLITE_OK;
  }
  static int read(sqlite3_file* file, void* to, int size, sqlite3_int64 at) {
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
    if (h.disk->sync_fails > 0 && h.disk->rng_.uniform_double() < h.disk->sync_fails)
      return SQLITE_IOERR_FSYNC;
    for (const auto& one : h.file->unsynced) Disk::File::apply(h.file->durable, one, one.bytes.size());
    h.file->unsynced.clear();
    return SQLITE_OK;
  }
  static int size(sqlite3_file* file, sqlite3_int64* out) {
    *out = static_cast<sqlite3_int64>(handle(file).file->now.size());
    return SQLITE_OK;
  }
  static int lock(sqlite3_file* file, int level) {
    Disk::Handle& h = handle(file);
    const int mine = h.locked >= SQLITE_LOCK_SHARED ? 1 : 0;
    if (level == SQLITE_LOCK_EXCLUSIVE && h.file->sharers > mine) return SQLITE_BUSY;
    if (level >= SQLITE_LOCK_SHARED) h.file->sharers += 1 - mine;
    h.locked = std::max(h.locked, level);
    return SQLITE_OK;
  }
  static int unlock(sqlite3_file* file, int level) {
    Disk::Handle& h = handle(file);
    if (h.locked >= SQLITE_LOCK_SHARED && level < SQLITE_LOCK_SHARED) --h.file->sharers;
    h.locked = std::min(h.locked, level);
    return SQLITE_OK;
  }
  static int reserved(sqlite3_file*, int* out) { return *out = 0, SQLITE_OK; }
  static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int sector(sqlite3_file*) { return static_cast<int>(kSector); }
  static int traits(sqlite3_file*) { return 0; }
  static int shm_map(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
    auto& shared = handle(file).file->shared;
    const auto wanted = static_cast<std::size_t>(region);
    while (shared.size() <= wanted && extend != 0)
      shared.push_back(std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(size)));
    *out = wanted < shared.size() ? shared[wanted].get() : nullptr;
    return SQLITE_OK;
  }
  // One thread, and nobody reads in the middle of another's transaction.
  static int shm_lock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
  static void shm_barrier(sqlite3_file*) {}
  static int shm_unmap(sqlite3_file* file, int gone) {
    if (gone != 0 && !dead(handle(file))) handle(file).file->shared.clear();
    return SQLITE_OK;
  }

  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    static const sqlite3_io_methods methods{2,       &close,   &read,     &write,       &truncate, &sync,
                                            &size,   &lock,    &unlock,   &reserved,    &control,  &sector,
                                            &traits, &shm_map, &shm_lock, &shm_barrier, &shm_unmap};
    file->pMethods = nullptr;
    const std::string path = name == nullptr ? "" : name;
    auto found = mounted->files_.find(path);
    if (name != nullptr && found == mounted->files_.end() && (flags & SQLITE_OPEN_CREATE) == 0)
      return SQLITE_CANTOPEN;
    std::shared_ptr<Disk::File> content =
        found == mounted->files_.end() ? std::make_shared<Disk::File>() : found->second;
    if (name != nullptr) mounted->files_[path] = content;
    new (file) Disk::Handle{{&methods}, std::move(content), mounted, mounted->life_};
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs*, const char* name, int) {
    return mounted->files_.erase(name) > 0 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
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
    : rng_{seed, Purpose::kSimulation, 3}, entropy_{seed, Purpose::kSimulation, 7} {
  DiskVfs::install();
  mounted = this;
  sqlite3_randomness(0, nullptr);  // It draws from this disk anew: what another seed left must not count.
}
Disk::~Disk() { mounted = nullptr; }

void Disk::crash() {
  ++life_;
  for (auto& [path, file] : files_) {
    auto after = std::make_shared<File>();
    after->durable = std::move(file->durable);
    // Whatever the disk had got round to: nothing, some sectors, or all of each write.
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
}

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
}

}  // namespace emplace::sim_test
