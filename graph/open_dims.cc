#include "graph/open_dims.h"

#include <algorithm>
#include <charconv>

#include "base/text/words.h"

namespace emplace {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 31;

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

Result<Unit> add(OpenDims& dims, std::string_view text) {
  const std::string where = "--shape '" + printable(text, 60) + "'";
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0)
    return invalid(where, "is not NAME=SIZE", "write --shape batch=8,seq=512");
  const std::string_view name = text.substr(0, equals), number = text.substr(equals + 1);
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  if (error != std::errc{} || end != number.data() + number.size() || size < 0 || size > kLargest)
    return invalid(where, "must have a size from 0 to 2^31");
  const auto [it, fresh] = dims.named.try_emplace(std::string{name}, size);
  if (!fresh && it->second != size) return invalid(where, "sets a second size", "set one size per name");
  return Unit{};
}

}  // namespace

std::optional<std::int64_t> OpenDims::size_of(std::string_view name, std::size_t axis) const {
  if (const auto it = named.find(name); it != named.end()) return it->second;
  return axis == 0 ? batch : std::nullopt;
}

Result<OpenDims> parse_open_dims(std::span<const std::string> texts) {
  OpenDims dims;
  for (const std::string_view text : texts) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      EMPLACE_TRY(add(dims, text.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  return dims;
}

std::optional<std::int64_t> DimUsage::size_of(std::string_view name, std::size_t axis) {
  add_once(encountered_, name);
  if (!name.empty() && std::find(batches_.begin(), batches_.end(), name) != batches_.end()) axis = 0;
  const auto size = given_.size_of(name, axis);
  if (!size) {
    add_once(missing_, name);
  } else if (!given_.named.contains(name)) {
    add_once(batches_, name);
  }
  return size;
}

std::optional<std::vector<std::int64_t>> DimUsage::shape_of(std::string_view name) {
  std::vector<std::int64_t> shape;
  for (std::string dim;
       dim = std::string{name} + "." + std::to_string(shape.size()), given_.named.contains(dim);)
    shape.push_back(*size_of(dim, 1));
  if (shape.empty()) return std::nullopt;
  return shape;
}

std::string DimUsage::missing_as_option() const {
  std::string names;
  for (const std::string& name : missing_)
    if (!name.empty()) names += (names.empty() ? "--shape " : ",") + printable(name, 60) + "=…";
  if (names.empty() || std::find(missing_.begin(), missing_.end(), "") != missing_.end())
    names += names.empty() ? "--batch N" : " and --batch N";
  return names;
}

Result<Unit> DimUsage::all_used(std::string_view where) const {
  for (const auto& [name, size] : given_.named) {
    if (std::find(encountered_.begin(), encountered_.end(), name) != encountered_.end()) continue;
    std::string known;
    for (const std::string& one : encountered_)
      if (!one.empty()) known += (known.empty() ? "" : ", ") + printable(one, 60);
    return invalid(where, "has no dimension called '" + printable(name, 60) + "'",
                   known.empty() ? "all dimensions have fixed sizes" : "it has " + known);
  }
  if (given_.batch && batches_.empty())
    return invalid(where, "has no open first dimension for --batch",
                   "its sizes are fixed; export it with a dynamic batch, or omit --batch");
  return Unit{};
}

}  // namespace emplace
