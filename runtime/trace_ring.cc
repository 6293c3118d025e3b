#include "runtime/trace_ring.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/text/words.h"

namespace emplace::runtime {

/// File header. Followed by the zero-terminated names (the node's first), then the records.
struct TraceRing::Header {
  static constexpr std::array<char, 8> kMagic{'e', 'm', 'p', 't', 'r', 'a', 'c', '1'};
  std::array<char, 8> magic = kMagic;
  std::uint64_t capacity = 0;
  std::uint64_t names_bytes = 0;
  std::int64_t wall_ns = 0, monotonic_ns = 0;
  std::array<char, 40> boot{};
  std::uint64_t written = 0;  ///< Records written so far, including overwritten ones.
};

namespace {

constexpr std::size_t kAlignment = alignof(TraceRecord) > 64 ? alignof(TraceRecord) : 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Boot id of this machine.
std::array<char, 40> boot_id() {
  std::array<char, 40> id{};
  const auto bytes = read_file("/proc/sys/kernel/random/boot_id");
  if (bytes) std::memcpy(id.data(), bytes->data(), std::min<std::size_t>(bytes->size(), 36));
  return id;
}

Error io_error(const std::filesystem::path& path, int code) {
  return Error{Errc::kIo,
               printable_path(path) + ": cannot be written (" + std::generic_category().message(code) + ")"};
}

}  // namespace

Result<std::unique_ptr<TraceRing>> TraceRing::make(const std::filesystem::path& folder,
                                                   const std::string& node, std::size_t number,
                                                   const std::vector<std::string>& actors,
                                                   std::size_t records, const Clock& clock) {
  std::string prefix = node;
  std::replace(prefix.begin(), prefix.end(), '/', '-');
  const std::filesystem::path path = folder / fmt::format("{}.{}.{}.ring", prefix, number, ::getpid());
  std::string names = node + '\0';
  for (const std::string& actor : actors) names += actor + '\0';
  const std::size_t start = aligned(sizeof(Header) + names.size());
  const std::size_t bytes = start + records * sizeof(TraceRecord);

  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
  if (!file.open()) return io_error(path, errno);
  const int full = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  void* const memory =
      full != 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  const int code = full != 0 ? full : errno;
  if (memory == MAP_FAILED) {
    ::unlink(path.c_str());
    return io_error(path, code);
  }
  auto* const header = new (memory) Header;
  header->capacity = records;
  header->names_bytes = names.size();
  header->monotonic_ns = clock.now().count();
  header->wall_ns = clock.wall().count();
  header->boot = boot_id();
  auto* const base = static_cast<std::byte*>(memory);
  std::memcpy(base + sizeof(Header), names.data(), names.size());
  auto* const first = reinterpret_cast<TraceRecord*>(base + start);
  return std::unique_ptr<TraceRing>{new TraceRing{memory, bytes, first, records}};
}

TraceRing::~TraceRing() { ::munmap(memory_, bytes_); }

void TraceRing::add(const TraceRecord& record) {
  records_[written_ % capacity_] = record;
  // Publish the count after the record is complete: a kill in between leaves no torn record.
  std::atomic_ref{static_cast<Header*>(memory_)->written}.store(++written_, std::memory_order_release);
}

Result<TracePart> read_trace_part(const std::filesystem::path& path) {
  using Header = TraceRing::Header;
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(path));
  const auto damaged = [&] { return invalid(printable_path(path), "not a trace file"); };
  if (bytes.size() < sizeof(Header)) return damaged();
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != Header::kMagic || header.capacity == 0 || header.names_bytes > bytes.size())
    return damaged();
  const std::size_t start = aligned(sizeof(Header) + header.names_bytes);
  if (start > bytes.size() || (bytes.size() - start) / sizeof(TraceRecord) < header.capacity)
    return damaged();

  TracePart part;
  part.boot.assign(header.boot.data(), ::strnlen(header.boot.data(), header.boot.size()));
  part.wall_ns = header.wall_ns;
  part.monotonic_ns = header.monotonic_ns;
  std::string_view names{reinterpret_cast<const char*>(bytes.data()) + sizeof(Header), header.names_bytes};
  for (std::size_t end; (end = names.find('\0')) != std::string_view::npos; names.remove_prefix(end + 1))
    part.actors.emplace_back(names.substr(0, end));
  if (part.actors.empty()) return damaged();
  part.node = part.actors.front();
  part.actors.erase(part.actors.begin());
  part.records.resize(std::min(header.written, header.capacity));
  part.overwritten = header.written - part.records.size();
  for (std::size_t k = 0; k < part.records.size(); ++k) {
    const std::size_t at = (part.overwritten + k) % header.capacity;
    std::memcpy(&part.records[k], bytes.data() + start + at * sizeof(TraceRecord), sizeof(TraceRecord));
  }
  return part;
}

}  // namespace emplace::runtime
