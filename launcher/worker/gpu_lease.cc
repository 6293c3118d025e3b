#include "launcher/worker/gpu_lease.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/text/words.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// Every user of the machine may create files here.
bool is_public_folder(const fs::path& folder) {
  struct stat facts {};
  return ::stat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && (facts.st_mode & S_IWOTH) != 0;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return std::string{first == std::string_view::npos ? "" : text.substr(first, last - first + 1)};
}

/// Whether a UUID is whole: the driver hides it behind question marks from some users.
bool is_uuid(std::string_view text) {
  return text.starts_with("GPU-") && text.size() > 4 &&
         text.find_first_not_of("0123456789abcdefABCDEF-", 4) == std::string_view::npos;
}

bool is_split_by_mig(const fs::path& driver) {
  return !matching_files((driver / "capabilities" / "gpu*" / "mig" / "gi*").string()).empty();
}

/// Returns the GPU that one word of CUDA_VISIBLE_DEVICES names; all.size() if there is none.
std::size_t named_gpu(std::string_view word, const std::vector<DriverGpu>& all) {
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failure == std::errc{} && end == word.data() + word.size()) return std::min(number, all.size());
  if (!word.starts_with("GPU-")) return all.size();
  const auto matches = [&](const DriverGpu& gpu) { return gpu.uuid.starts_with(word); };
  const auto found = std::find_if(all.begin(), all.end(), matches);
  const bool unique = found != all.end() && std::none_of(found + 1, all.end(), matches);
  return unique ? static_cast<std::size_t>(found - all.begin()) : all.size();
}

/// Opens a lock file that every user of the machine shares. Lock files are never removed, so that a lock and
/// its path cannot part. The kernel refuses to open other users' files in /tmp with O_CREAT.
Result<process::Descriptor> open_lock(const fs::path& file) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
  for (int tries = 0; tries < 3; ++tries) {
    process::Descriptor fd{::open(file.c_str(), O_RDWR | kFlags)};
    if (!fd.open() && (errno == EACCES || errno == EPERM)) fd.reset(::open(file.c_str(), O_RDONLY | kFlags));
    if (!fd.open() && errno == ENOENT) {
      fd.reset(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | kFlags, 0666));
      if (fd.open()) ::fchmod(fd.get(), 0666);  // Whatever the umask is.
    }
    if (fd.open()) return fd;
    if (errno != EEXIST) break;  // Another process created it meanwhile.
  }
  return Error{Errc::kIo, printable_path(file) + ": cannot be opened (" +
                              std::generic_category().message(errno) + "); it locks a GPU for one executor"};
}

/// Locks GPUs, one process at a time: two that each lease several must not end up with half of them.
class Choice {
 public:
  static Result<Choice> begin(const GpuSources& sources) {
    EMPLACE_TRY_ASSIGN(auto lock, open_lock(sources.locks / "emplace-gpus.lock"));
    while (::flock(lock.get(), LOCK_EX) != 0)
      if (errno != EINTR) return process::system_error("flock", errno);
    return Choice{sources.locks, std::move(lock)};
  }

  /// Returns the lock of a GPU; a closed descriptor if another executor has it. Errors: kIo.
  Result<process::Descriptor> lock(const std::string& uuid) {
    const fs::path file = folder_ / ("emplace-" + uuid + ".lock");
    EMPLACE_TRY_ASSIGN(auto fd, open_lock(file));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    std::array<char, 24> pid{};
    const ssize_t size = ::pread(fd.get(), pid.data(), pid.size(), 0);
    const std::string holder = trimmed({pid.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))});
    holders_.push_back(uuid + (holder.empty() ? "" : " (process " + printable(holder, 20) + ")"));
    return process::Descriptor{};
  }

  /// "; GPU-1 (process 12) is in use"; empty if all were free.
  std::string holders() const {
    return holders_.empty() ? "" : fmt::format("; in use: {}", fmt::join(holders_, ", "));
  }

 private:
  Choice(fs::path folder, process::Descriptor lock) : folder_{std::move(folder)}, lock_{std::move(lock)} {}
  fs::path folder_;
  process::Descriptor lock_;
  std::vector<std::string> holders_;
};

/// Writes our pid into a lock for the errors of others, padded to overwrite a longer one.
void sign(const process::Descriptor& lock) {
  const std::string pid = fmt::format("{:<20}", ::getpid());
  (void)!::pwrite(lock.get(), pid.data(), pid.size(), 0);
}

Error too_few(std::uint32_t executors, std::size_t needed, std::size_t free, const Choice& choice,
              std::string_view cure) {
  return invalid("executor 'cuda'",
                 fmt::format("{} need{} {} GPU{}, but {} {} free{}",
                             executors == 1 ? "an executor" : fmt::format("{} executors", executors),
                             executors == 1 ? "s" : "", needed, needed == 1 ? "" : "s", free,
                             free == 1 ? "is" : "are", choice.holders()),
                 cure);
}

}  // namespace

GpuSources GpuSources::real() {
  GpuSources sources;
  sources.locks = is_public_folder("/run/lock") ? "/run/lock" : "/tmp";
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) sources.visible = visible;
  return sources;
}

std::vector<DriverGpu> driver_gpus(const fs::path& driver) {
  std::vector<DriverGpu> all;
  std::error_code error;
  for (fs::directory_iterator it{driver / "gpus", error}, end; !error && it != end; it.increment(error)) {
    DriverGpu& gpu = all.emplace_back();
    gpu.address = it->path().filename().string();
    std::ifstream in{it->path() / "information"};
    for (std::string line; std::getline(in, line);) {
      const std::size_t colon = std::min(line.find(':'), line.size());
      const std::string key = line.substr(0, colon),
                        value = trimmed(std::string_view{line}.substr(std::min(colon + 1, line.size())));
      if (key == "Model") gpu.model = value;
      if (key == "GPU UUID" && is_uuid(value)) gpu.uuid = value;
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return all;
}

LeasableGpus leasable_gpus(const GpuSources& sources) {
  const std::vector<DriverGpu> all = driver_gpus(sources.driver);
  if (all.empty()) return {{}, "the NVIDIA driver lists no GPU"};
  if (is_split_by_mig(sources.driver)) return {{}, "a GPU is split by MIG"};
  if (std::any_of(all.begin(), all.end(), [](const DriverGpu& gpu) { return gpu.uuid.empty(); }))
    return {{}, "the NVIDIA driver hides a GPU's UUID"};
  LeasableGpus leasable;
  if (!sources.visible) {
    for (const DriverGpu& gpu : all) leasable.uuids.push_back(gpu.uuid);
    return leasable;
  }
  // CUDA ignores everything from the first invalid word on.
  for (std::string_view rest = *sources.visible; !rest.empty();) {
    const std::string word = trimmed(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), std::min(rest.find(','), rest.size()) + 1));
    const std::size_t at = named_gpu(word, all);
    if (at == all.size()) break;
    leasable.uuids.push_back(all[at].uuid);
  }
  std::vector<std::string>& uuids = leasable.uuids;
  std::sort(uuids.begin(), uuids.end());
  uuids.erase(std::unique(uuids.begin(), uuids.end()), uuids.end());
  if (uuids.empty())
    leasable.why_none = "CUDA_VISIBLE_DEVICES '" + printable(*sources.visible, 60) + "' names no whole GPU";
  return leasable;
}

std::size_t gpus_per_executor(const DeviceSet& devices, std::size_t leasable) {
  std::size_t gpus = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) gpus += devices.is_cpu(static_cast<DeviceId>(d)) ? 0 : 1;
  return std::max<std::size_t>(std::min(gpus, leasable), 1);
}

Result<std::uint32_t> executors_by_gpus(const GpuSources& sources, const DeviceSet& devices) {
  const LeasableGpus leasable = leasable_gpus(sources);
  if (leasable.uuids.empty())
    return invalid("executor.count = auto", "finds no GPU to lease: " + leasable.why_none,
                   "give the number of executors");
  const std::size_t each = gpus_per_executor(devices, leasable.uuids.size());
  return static_cast<std::uint32_t>(leasable.uuids.size() / each);
}

Result<Unit> check_gpu_leases(const GpuSources& sources, const DeviceSet& devices, std::uint32_t executors) {
  const LeasableGpus leasable = leasable_gpus(sources);
  if (leasable.uuids.empty()) return Unit{};
  EMPLACE_TRY_ASSIGN(auto choice, Choice::begin(sources));
  std::size_t free = 0;
  for (const std::string& uuid : leasable.uuids) {
    EMPLACE_TRY_ASSIGN(const auto lock, choice.lock(uuid));
    free += lock.open() ? 1 : 0;
  }
  const std::size_t needed = executors * gpus_per_executor(devices, leasable.uuids.size());
  if (needed <= free) return Unit{};
  return too_few(
      executors, needed, free, choice,
      leasable.uuids.size() >= needed ? "wait until the others have ended" : "use executor.count = \"auto\"");
}

Result<Unit> GpuLease::take(const DeviceSet& devices) {
  const LeasableGpus leasable = leasable_gpus(sources_);
  if (leasable.uuids.empty()) return Unit{};
  const std::size_t wanted = gpus_per_executor(devices, leasable.uuids.size());
  if (held_.size() >= wanted) return Unit{};
  EMPLACE_TRY_ASSIGN(auto choice, Choice::begin(sources_));
  std::vector<Held> added;
  for (const std::string& uuid : leasable.uuids) {
    if (held_.size() + added.size() == wanted) break;
    if (std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return held.uuid == uuid; }))
      continue;
    EMPLACE_TRY_ASSIGN(auto lock, choice.lock(uuid));
    if (lock.open()) added.push_back({uuid, std::move(lock)});
  }
  if (held_.size() + added.size() < wanted)
    return too_few(1, wanted - held_.size(), added.size(), choice, "wait until the others have ended");
  for (Held& one : added) {
    sign(one.lock);
    held_.push_back(std::move(one));
  }
  return Unit{};
}

std::string GpuLease::environment() const {
  return held_.empty() ? "" : fmt::format("CUDA_VISIBLE_DEVICES={}", fmt::join(uuids(), ","));
}

std::vector<int> GpuLease::descriptors() const {
  std::vector<int> all;
  for (const Held& held : held_) all.push_back(held.lock.get());
  return all;
}

std::vector<std::string> GpuLease::uuids() const {
  std::vector<std::string> all;
  for (const Held& held : held_) all.push_back(held.uuid);
  return all;
}

}  // namespace emplace::launcher
