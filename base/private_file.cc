#include "base/private_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/text/words.h"

namespace emplace {

Result<Unit> check_private(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return Error{Errc::kIo,
                 printable_path(path) + ": cannot be read (" + std::generic_category().message(errno) + ")"};
  if (S_ISREG(info.st_mode) && (info.st_mode & 077) != 0)
    return invalid(printable_path(path), "others may read this secret", "chmod 600 " + printable_path(path));
  return Unit{};
}

}  // namespace emplace
