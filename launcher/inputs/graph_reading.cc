#include "launcher/inputs/graph_reading.h"

#include <system_error>

#include "graph/arithmetic.h"

namespace emplace::launcher {

Result<ReadOptions> GraphReading::options() const {
  ReadOptions read;
  if (!from.empty()) {
    const auto format = parse_format(from);
    if (!format) return invalid("--from", format.error().context);
    read.format = *format;
  }
  auto dims = parse_open_dims(shape);
  if (!dims) return dims.error();
  read.dims = *std::move(dims);
  if (batch > std::uint64_t{1} << 31) return invalid("--batch", "is out of range", "use 1 to 2^31");
  if (batch != 0) read.dims.batch = static_cast<std::int64_t>(batch);
  if (float32.empty()) return read;
  const auto use = parse_word<Float32>(float32);
  if (!use) return invalid("--float32", use.error().context);
  read.float32 = *use;
  return read;
}

std::filesystem::path graph_file_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path saved = path / "saved_model.pb";
  return std::filesystem::is_directory(path, error) && std::filesystem::exists(saved, error) ? saved : path;
}

}  // namespace emplace::launcher
