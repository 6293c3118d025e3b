#include "record/store/launch_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/text/words.h"

namespace emplace::record {
namespace {

/// True if `file` still names the open file `fd`; a previous holder may have removed it.
bool still_named(int fd, const std::filesystem::path& file) {
  const auto id = FileId::of(fd);
  return id && id == FileId::of(file);
}

}  // namespace

Result<LaunchLock> LaunchLock::take(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "lock";
  const std::string where = printable_path(directory);
  for (;;) {
    Descriptor lock{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!lock.open())
      return Error{Errc::kIo, where + ": the run directory cannot be written (" +
                                  std::generic_category().message(errno) +
                                  "); choose another with --run-dir"};
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return invalid(where, "is being written by another emplace",
                     "wait until it has finished, or choose another --run-dir");
    if (still_named(lock.get(), file)) return LaunchLock{file, std::move(lock)};
  }
}

bool LaunchLock::is_held(const std::filesystem::path& directory) {
  const auto id = FileId::of(directory / "lock");
  const auto all = id ? read_file("/proc/locks") : Result<Bytes>{Bytes{}};
  if (!all) return false;
  // "1: FLOCK  ADVISORY  WRITE 4711 08:01:131073 0 EOF", with the numbers of the device and of the file.
  const std::string wanted =
      fmt::format(" {:02x}:{:02x}:{} ", major(id->device), minor(id->device), id->inode);
  for (std::string_view text = text_of(*all); !text.empty();) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find("FLOCK") != std::string_view::npos && line.find(" WRITE ") != std::string_view::npos &&
        line.find(wanted) != std::string_view::npos)
      return true;
  }
  return false;
}

bool LaunchLock::held() const { return lock_.open() && still_named(lock_.get(), file_); }

LaunchLock::~LaunchLock() {
  if (held()) ::unlink(file_.c_str());
}

}  // namespace emplace::record
