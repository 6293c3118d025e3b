#include "placement/export/trace_writer.h"

#include <fmt/core.h>
#include <zlib.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace emplace::interop {
namespace {

/// Nanoseconds as microseconds, exact.
std::string microseconds(std::int64_t ns) {
  const char* const sign = ns < 0 ? "-" : "";
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
}

std::string where(TraceWriter::Track track) {
  return fmt::format(R"("pid":{},"tid":{})", track.process, track.track);
}

}  // namespace

struct TraceWriter::Packer {
  z_stream stream{};
  Packer() {
    constexpr int kLevel = 5, kGzip = 15 + 16, kMemory = 8;
    EMPLACE_CHECK(deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
                  "zlib initialisation failed");
  }
  ~Packer() { deflateEnd(&stream); }

  void pack(std::string_view text, bool last, NewFile& into) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    std::array<std::byte, 1 << 15> out;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      into.write(std::span{out}.first(out.size() - stream.avail_out));
    } while (stream.avail_out == 0);
  }
};

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TraceWriter::TraceWriter(const std::filesystem::path& path)
    : file_{path}, packer_{path.extension() == ".gz" ? std::make_unique<Packer>() : nullptr} {
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::write(std::string_view text) {
  if (packer_) {
    packer_->pack(text, false, file_);
  } else {
    file_.write(text);
  }
}

void TraceWriter::event(std::string_view text) {
  write(std::exchange(first_, false) ? "\n{" : ",\n{");
  write(text);
  write("}");
}

void TraceWriter::name_process(std::size_t process, std::string_view name) {
  event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", process,
                    json_text(name)));
}

void TraceWriter::name_track(Track track, std::string_view name) {
  event("\"ph\":\"M\",\"name\":\"thread_name\"," + where(track) + ",\"args\":{\"name\":" + json_text(name) +
        "}");
  event(fmt::format(R"("ph":"M","name":"thread_sort_index",{},"args":{{"sort_index":{}}})", where(track),
                    track.track));
}

void TraceWriter::slice(Track track, std::string_view name, std::string_view category, std::int64_t begin_ns,
                        std::int64_t end_ns, std::string_view arguments) {
  std::string text = "\"ph\":\"X\",\"name\":" + json_text(name) + ",\"cat\":" + json_text(category) + "," +
                     where(track) + ",\"ts\":" + microseconds(begin_ns) +
                     ",\"dur\":" + microseconds(end_ns - begin_ns);
  if (!arguments.empty()) text.append(",\"args\":{").append(arguments).append("}");
  event(text);
}

void TraceWriter::counter(std::size_t process, std::string_view name, std::int64_t at_ns,
                          std::int64_t value) {
  event(fmt::format(R"("ph":"C","name":{0},"pid":{1},"ts":{2},"args":{{{0}:{3}}})", json_text(name), process,
                    microseconds(at_ns), value));
}

void TraceWriter::flow(std::string_view phase, Track track, std::uint64_t id, std::int64_t at_ns) {
  event(fmt::format(R"("ph":"{}","name":"flow","cat":"flow","id":{},{},"ts":{})", phase, id, where(track),
                    microseconds(at_ns)));
}

Result<Unit> TraceWriter::finish(std::string_view metadata) {
  write("\n],\"otherData\":{");
  write(metadata);
  write("}}\n");
  if (packer_) packer_->pack({}, true, file_);
  return file_.commit();
}

}  // namespace emplace::interop
