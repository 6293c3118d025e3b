// A library for LD_PRELOAD. It forwards every call, and logs the effects of calls on the files below one
// folder, so that a test can make the folder as a power cut would have left it (power_cut.h). Writes are
// logged after they are done, and output before it is printed, so that a cut at any place of the log could
// have happened. Shared mappings are not observed: the only such file is SQLite's shared memory, whose
// content need not survive.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "tests/powercut/operation.h"

namespace emplace::powercut {
namespace {

/// The function of this name that the program would have called without the layer.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "power-cut layer: %s (errno %d)\n", what, errno);
  std::abort();
}

/// A file of the folder that a descriptor of this process belongs to.
struct Watched {
  bool watched = false;
  ino_t inode = 0;
  bool folder = false;
  std::string path;  ///< Path of a folder, relative to the watched one.
};

struct Layer {
  std::string folder;  ///< Absolute path; empty: nothing is watched.
  int log = -1;
  Mutex lock;
  std::array<Watched, 1024> by_descriptor EMPLACE_GUARDED_BY(lock);

  Layer() {
    const char* const where = std::getenv(kFolderVariable);
    const char* const file = std::getenv(kLogVariable);
    if (where == nullptr || file == nullptr) return;
    folder = where;
    const int opened = next<int(const char*, int, ...)>("open")(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (opened < 0) give_up("the log cannot be opened");
    log = ::fcntl(opened, F_DUPFD_CLOEXEC, 900);  // Far from the descriptors of the program.
    if (log < 0) give_up("the log has no descriptor");
    next<int(int)>("close")(opened);
  }
};

/// Never destroyed: the program may write while it ends.
Layer& layer() {
  static Layer& one = *new Layer;
  return one;
}

/// Keeps the errno of the forwarded call.
class KeepErrno {
 public:
  ~KeepErrno() { errno = kept_; }

 private:
  const int kept_ = errno;
};

std::uint64_t log_size() {
  struct stat info {};
  if (::fstat(layer().log, &info) != 0) give_up("the log is gone");
  return static_cast<std::uint64_t>(info.st_size);
}

struct Noted {
  What what;
  ino_t inode = 0;
  std::uint64_t offset = 0, covers = 0;
  std::string_view path = {}, second_path = {};
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// One write with O_APPEND, so that records of several processes do not mix.
void note(const Noted& noted) {
  OperationHeader header{noted.what,
                         static_cast<std::uint32_t>(::getpid()),
                         noted.inode,
                         noted.offset,
                         noted.covers,
                         static_cast<std::uint32_t>(noted.path.size()),
                         static_cast<std::uint32_t>(noted.second_path.size()),
                         noted.bytes};
  const auto part = [](const void* data, std::size_t bytes) { return iovec{const_cast<void*>(data), bytes}; };
  const std::array<iovec, 4> parts{part(&header, sizeof header), part(noted.path.data(), noted.path.size()),
                                   part(noted.second_path.data(), noted.second_path.size()),
                                   part(noted.data, noted.bytes)};
  const std::size_t whole = sizeof header + noted.path.size() + noted.second_path.size() + noted.bytes;
  static const auto write_parts = next<ssize_t(int, const iovec*, int)>("writev");
  if (write_parts(layer().log, parts.data(), parts.size()) != static_cast<ssize_t>(whole))
    give_up("the log takes no more");
}

/// Path relative to the watched folder, with the folder's own links resolved; empty if it is outside.
std::string path_in_folder(int folder_descriptor, const char* path) {
  Layer& l = layer();
  if (l.folder.empty() || path == nullptr) return {};
  std::string whole = path;
  if (whole.empty() || whole.front() != '/') {
    std::array<char, PATH_MAX> base{};
    const std::string link = folder_descriptor == AT_FDCWD
                                 ? "/proc/self/cwd"
                                 : "/proc/self/fd/" + std::to_string(folder_descriptor);
    if (::readlink(link.c_str(), base.data(), base.size() - 1) < 0) return {};
    whole = std::string{base.data()} + "/" + whole;
  }
  const std::size_t slash = whole.find_last_not_of('/');
  whole.resize(slash == std::string::npos ? 0 : slash + 1);
  const std::size_t cut = whole.rfind('/');
  if (cut == std::string::npos) return {};
  std::array<char, PATH_MAX> parent{};
  if (::realpath(whole.substr(0, std::max<std::size_t>(cut, 1)).c_str(), parent.data()) == nullptr) return {};
  const std::string resolved = std::string{parent.data()} + whole.substr(cut);
  if (resolved == l.folder) return ".";
  if (!resolved.starts_with(l.folder + "/")) return {};
  return resolved.substr(l.folder.size() + 1);
}

bool exists(int folder_descriptor, const char* path) {
  struct stat info {};
  return ::fstatat(folder_descriptor, path, &info, 0) == 0;
}

/// Notes a descriptor that was opened at a path of the folder. `new_file`: the call created the file.
void opened(int descriptor, const std::string& path, bool new_file, int flags) {
  const KeepErrno keep;
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) give_up("a new descriptor is invalid");
  Layer& l = layer();
  const MutexLock guard{l.lock};
  if (static_cast<std::size_t>(descriptor) >= l.by_descriptor.size()) give_up("too many descriptors");
  l.by_descriptor[static_cast<std::size_t>(descriptor)] = {true, info.st_ino, S_ISDIR(info.st_mode), path};
  if (new_file) {
    note({.what = What::kCreated, .inode = info.st_ino, .path = path});
  } else if ((flags & O_TRUNC) != 0) {
    note({.what = What::kCut, .inode = info.st_ino});
  }
}

/// The file of a descriptor, if it is in the folder.
Watched watched(int descriptor) {
  Layer& l = layer();
  const MutexLock guard{l.lock};
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= l.by_descriptor.size()) return {};
  return l.by_descriptor[static_cast<std::size_t>(descriptor)];
}

void forget(int descriptor) {
  Layer& l = layer();
  const MutexLock guard{l.lock};
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= l.by_descriptor.size()) return;
  l.by_descriptor[static_cast<std::size_t>(descriptor)] = {};
}

void wrote(int descriptor, std::uint64_t offset, const void* data, ssize_t bytes) {
  if (bytes <= 0) return;
  const KeepErrno keep;
  if (const Watched file = watched(descriptor); file.watched)
    note({.what = What::kWrote,
          .inode = file.inode,
          .offset = offset,
          .data = data,
          .bytes = static_cast<std::size_t>(bytes)});
}

/// Offset at which the last write, of `bytes` bytes, started.
std::uint64_t start_of_write(int descriptor, ssize_t bytes) {
  const KeepErrno keep;
  return static_cast<std::uint64_t>(::lseek(descriptor, 0, SEEK_CUR) - std::max<ssize_t>(bytes, 0));
}

int open_at(const char* name, int folder_descriptor, const char* path, int flags, mode_t mode) {
  const std::string inside = path_in_folder(folder_descriptor, path);
  const bool new_file = !inside.empty() && (flags & O_CREAT) != 0 && !exists(folder_descriptor, path);
  const int descriptor = next<int(int, const char*, int, ...)>(name)(folder_descriptor, path, flags, mode);
  if (descriptor >= 0 && !inside.empty()) opened(descriptor, inside, new_file, flags);
  return descriptor;
}

int sync(const char* name, int descriptor) {
  const Watched file = watched(descriptor);
  const std::uint64_t covers = file.watched ? log_size() : 0;
  const int result = next<int(int)>(name)(descriptor);
  const KeepErrno keep;
  if (result == 0 && file.watched && file.folder)
    note({.what = What::kSyncedFolder, .covers = covers, .path = file.path});
  if (result == 0 && file.watched && !file.folder)
    note({.what = What::kSynced, .inode = file.inode, .covers = covers});
  return result;
}

ssize_t write_at(const char* name, int descriptor, const void* data, std::size_t bytes, off_t offset) {
  const ssize_t done =
      next<ssize_t(int, const void*, std::size_t, off_t)>(name)(descriptor, data, bytes, offset);
  wrote(descriptor, static_cast<std::uint64_t>(offset), data, done);
  return done;
}

int cut_to(const char* name, int descriptor, off_t size) {
  const int result = next<int(int, off_t)>(name)(descriptor, size);
  const KeepErrno keep;
  if (const Watched file = watched(descriptor); result == 0 && file.watched)
    note({.what = What::kCut, .inode = file.inode, .offset = static_cast<std::uint64_t>(size)});
  return result;
}

int renamed(int result, const std::string& from, const std::string& to) {
  const KeepErrno keep;
  if (result != 0 || (from.empty() && to.empty())) return result;
  if (from.empty() || to.empty()) give_up("a file was moved across the edge of the folder");
  note({.what = What::kRenamed, .path = from, .second_path = to});
  return result;
}

int removed(int result, const std::string& path) {
  const KeepErrno keep;
  if (result == 0 && !path.empty()) note({.what = What::kRemoved, .path = path});
  return result;
}

int made_folder(int result, const std::string& path) {
  const KeepErrno keep;
  if (result == 0 && !path.empty()) note({.what = What::kMadeFolder, .path = path});
  return result;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace emplace::powercut

using namespace emplace::powercut;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at("openat", AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at("openat64", AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at("openat", folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at("openat64", folder, path, flags, mode);
}
int creat(const char* path, mode_t mode) {
  return open_at("openat", AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
int close(int descriptor) {
  forget(descriptor);
  return next<int(int)>("close")(descriptor);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  if (descriptor == STDOUT_FILENO && !layer().folder.empty()) {
    const KeepErrno keep;
    note({.what = What::kPrinted, .data = data, .bytes = bytes});
  }
  const ssize_t done = next<ssize_t(int, const void*, size_t)>("write")(descriptor, data, bytes);
  if (watched(descriptor).watched) wrote(descriptor, start_of_write(descriptor, done), data, done);
  return done;
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  const ssize_t done = next<ssize_t(int, const iovec*, int)>("writev")(descriptor, parts, count);
  if (!watched(descriptor).watched) return done;
  std::uint64_t offset = start_of_write(descriptor, done);
  ssize_t left = done;
  for (int i = 0; i < count && left > 0; ++i) {
    const ssize_t taken = std::min(left, static_cast<ssize_t>(parts[i].iov_len));
    wrote(descriptor, offset, parts[i].iov_base, taken);
    offset += static_cast<std::uint64_t>(taken);
    left -= taken;
  }
  return done;
}
ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  return write_at("pwrite", descriptor, data, bytes, offset);
}
ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  return write_at("pwrite64", descriptor, data, bytes, offset);
}
int ftruncate(int descriptor, off_t size) noexcept { return cut_to("ftruncate", descriptor, size); }
int ftruncate64(int descriptor, off64_t size) noexcept { return cut_to("ftruncate64", descriptor, size); }
int fsync(int descriptor) { return sync("fsync", descriptor); }
int fdatasync(int descriptor) { return sync("fdatasync", descriptor); }

int rename(const char* from, const char* to) noexcept {
  const std::string inside = path_in_folder(AT_FDCWD, from), target = path_in_folder(AT_FDCWD, to);
  return renamed(next<int(const char*, const char*)>("rename")(from, to), inside, target);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  const std::string inside = path_in_folder(from_folder, from), target = path_in_folder(to_folder, to);
  return renamed(next<int(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder, to),
                 inside, target);
}
int unlink(const char* path) noexcept {
  const std::string inside = path_in_folder(AT_FDCWD, path);
  return removed(next<int(const char*)>("unlink")(path), inside);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  const std::string inside = path_in_folder(folder, path);
  return removed(next<int(int, const char*, int)>("unlinkat")(folder, path, flags), inside);
}
int remove(const char* path) noexcept {
  const std::string inside = path_in_folder(AT_FDCWD, path);
  return removed(next<int(const char*)>("remove")(path), inside);
}
int rmdir(const char* path) noexcept {
  const std::string inside = path_in_folder(AT_FDCWD, path);
  return removed(next<int(const char*)>("rmdir")(path), inside);
}
int mkdir(const char* path, mode_t mode) noexcept {
  const std::string inside = path_in_folder(AT_FDCWD, path);
  return made_folder(next<int(const char*, mode_t)>("mkdir")(path, mode), inside);
}
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  const std::string inside = path_in_folder(folder, path);
  return made_folder(next<int(int, const char*, mode_t)>("mkdirat")(folder, path, mode), inside);
}

}  // extern "C"
