#include "placement/export/submodels/external_data.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::interop {
namespace {

namespace fs = std::filesystem;
using onnx_io::in_quotes;

Error bad_tensor(const onnx::TensorProto& tensor, std::string_view what, std::string_view cure) {
  return invalid("initializer " + in_quotes(tensor.name()), what, cure);
}

}  // namespace

ExternalData::ExternalData(fs::path source, fs::path target)
    : source_{std::move(source)}, target_{std::move(target)} {}

Result<Unit> ExternalData::take(onnx::TensorProto& tensor) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return Unit{};
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const auto& entry : tensor.external_data()) {
    std::uint64_t number = 0;
    const char* const end = entry.value().data() + entry.value().size();
    const auto [at, error] = std::from_chars(entry.value().data(), end, number);
    const bool whole = error == std::errc{} && at == end;
    if (entry.key() == "location") location = entry.value();
    if ((entry.key() == "offset" || entry.key() == "length") && !whole)
      return bad_tensor(tensor, "has the " + entry.key() + " " + in_quotes(entry.value()), {});
    if (entry.key() == "offset") offset = number;
    if (entry.key() == "length") length = number;
  }
  if (location.empty() || !onnx_io::stays_inside(location))
    return bad_tensor(tensor, "has its data outside of the model's folder, in " + in_quotes(location),
                      "save the model with its data beside it");
  std::error_code missing;
  const std::uint64_t size = fs::file_size(source_ / location, missing);
  if (missing)
    return bad_tensor(tensor, "has its data in " + in_quotes(location) + ", which cannot be read",
                      "put that file beside the model");
  if (!length) length = size - std::min(size, offset);
  if (offset > size || *length > size - offset)
    return bad_tensor(tensor, "needs more data than " + in_quotes(location) + " has",
                      "fetch that file again");
  return copy(tensor, location, offset, *length);
}

Result<Unit> ExternalData::commit() {
  if (!file_) return Unit{};
  return file_->commit();
}

Result<Unit> ExternalData::copy(onnx::TensorProto& tensor, const std::string& location, std::uint64_t offset,
                                std::uint64_t length) {
  // Pages of their own let a runtime map large tensors (onnx.proto, external_data).
  constexpr std::uint64_t kPage = 4096, kSmallBlock = 64, kLargeTensor = 65536;
  if (!file_) file_.emplace(target_);
  const std::uint64_t block = length >= kLargeTensor ? kPage : kSmallBlock;
  const std::string padding((block - file_->size() % block) % block, '\0');
  file_->write(padding);
  const std::uint64_t start = file_->size();
  std::ifstream source{source_ / location, std::ios::binary};
  source.seekg(static_cast<std::streamoff>(offset));
  std::vector<char> buffer(std::min<std::uint64_t>(length, std::uint64_t{1} << 20));
  for (std::uint64_t left = length; left > 0;) {
    const std::uint64_t chunk = std::min<std::uint64_t>(left, buffer.size());
    if (!source.read(buffer.data(), static_cast<std::streamsize>(chunk)))
      return bad_tensor(tensor, "has its data in " + in_quotes(location) + ", which cannot be read", {});
    file_->write(std::string_view{buffer.data(), chunk});
    left -= chunk;
  }
  EMPLACE_TRY(file_->so_far());
  tensor.clear_external_data();
  const auto set = [&](const char* key, std::string value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  set("location", name());
  set("offset", std::to_string(start));
  set("length", std::to_string(length));
  return Unit{};
}

}  // namespace emplace::interop
