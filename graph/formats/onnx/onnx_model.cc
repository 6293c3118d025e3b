#include "graph/formats/onnx/onnx_model.h"

#include <onnx.pb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "graph/formats/onnx/onnx_wire.h"

namespace emplace::onnx_io {
namespace {

/// Messages of the schema that lead to tensors, and the message types of their fields. Fields that are not
/// listed are copied unchanged.
enum class Message : std::uint8_t { kModel, kGraph, kFunction, kNode, kAttribute, kSparse, kTensor, kOther };

Message field_of(Message message, std::uint64_t field) {
  struct Row {
    Message message;
    std::uint64_t field;
    Message holds;
  };
  static constexpr Row kRows[]{
      {Message::kModel, 7, Message::kGraph},         {Message::kModel, 25, Message::kFunction},
      {Message::kGraph, 1, Message::kNode},          {Message::kGraph, 5, Message::kTensor},
      {Message::kGraph, 15, Message::kSparse},       {Message::kFunction, 7, Message::kNode},
      {Message::kFunction, 11, Message::kAttribute}, {Message::kNode, 5, Message::kAttribute},
      {Message::kAttribute, 5, Message::kTensor},    {Message::kAttribute, 6, Message::kGraph},
      {Message::kAttribute, 10, Message::kTensor},   {Message::kAttribute, 11, Message::kGraph},
      {Message::kAttribute, 22, Message::kSparse},   {Message::kAttribute, 23, Message::kSparse},
      {Message::kSparse, 1, Message::kTensor},       {Message::kSparse, 2, Message::kTensor}};
  for (const Row& row : kRows)
    if (row.message == message && row.field == field) return row.holds;
  return Message::kOther;
}

/// Returns whether a field of TensorProto holds contents: float, int32, string, int64, raw, double or uint64
/// data.
bool holds_contents(std::uint64_t field) { return (field >= 4 && field <= 7) || (field >= 9 && field <= 11); }

void put_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
  out += static_cast<char>(value);
}

/// Copies a message without large contents of tensors. Returns false if it is malformed.
bool copy_thin(std::span<const std::byte> bytes, Message message, int depth, std::string& out) {
  constexpr int kDeepest = 100;  // Same depth limit as protobuf's parser.
  if (depth > kDeepest) return false;
  for (WireReader reader{bytes}; !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return false;
    const Message holds = field->content ? field_of(message, field->number) : Message::kOther;
    if (message == Message::kTensor && holds_contents(field->number) && field->content &&
        field->content->size() > kKeptBytes)
      continue;
    if (holds == Message::kOther) {
      append_bytes(out, field->whole);
      continue;
    }
    std::string inner;
    if (!copy_thin(*field->content, holds, depth + 1, inner)) return false;
    put_varint(field->number << 3 | 2, out);
    put_varint(inner.size(), out);
    out += inner;
  }
  return true;
}

/// Decodes the elements of little-endian raw data.
template <class T, class Out>
bool take_raw(const std::string& raw, std::vector<Out>& values) {
  if (raw.size() % sizeof(T) != 0) return false;
  for (std::size_t at = 0; at < raw.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, raw.data() + at, sizeof(T));
    values.push_back(static_cast<Out>(value));
  }
  return true;
}

template <class T, class Out, class Field>
bool take(const onnx::TensorProto& tensor, const Field& field, std::vector<Out>& values) {
  if (tensor.has_raw_data()) return take_raw<T>(tensor.raw_data(), values);
  for (const auto value : field) values.push_back(static_cast<Out>(value));
  return true;
}

bool take_whole(const onnx::TensorProto& tensor, std::vector<std::int64_t>& values) {
  switch (tensor.data_type()) {
    case Proto::INT64:
      return take<std::int64_t>(tensor, tensor.int64_data(), values);
    case Proto::INT32:
      return take<std::int32_t>(tensor, tensor.int32_data(), values);
    case Proto::INT16:
      return take<std::int16_t>(tensor, tensor.int32_data(), values);
    case Proto::INT8:
      return take<std::int8_t>(tensor, tensor.int32_data(), values);
    case Proto::UINT8:
    case Proto::BOOL:
      return take<std::uint8_t>(tensor, tensor.int32_data(), values);
    default:
      return false;
  }
}

/// Parses a Python list such as "['a', \"b\"]".
std::vector<std::string> list_of(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char quote = text[at];
    if (quote != '\'' && quote != '"') continue;
    std::string item;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      item += text[at];
    }
    items.push_back(std::move(item));
  }
  return items;
}

/// Splits ": Net/layers.0: Block/add: aten.add" into "", "layers.0", "add".
std::vector<std::string> levels_of(std::string_view text) {
  std::vector<std::string> levels;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view level = text.substr(begin, end - begin);
    levels.emplace_back(level.substr(0, level.find(':')));
    begin = end + 1;
  }
  return levels;
}

/// The last level but one is the innermost module's full path; its dots become levels.
std::string module_of(const std::vector<std::string>& levels) {
  if (levels.size() < 2) return {};
  std::string path = levels[levels.size() - 2];
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

}  // namespace

std::optional<std::string> without_weights(std::span<const std::byte> model) {
  std::string out;
  if (!copy_thin(model, Message::kModel, 0, out)) return std::nullopt;
  return out;
}

Result<Unit> parse_model(std::span<const std::byte> bytes, std::string_view where, onnx::ModelProto& model) {
  const auto thin = without_weights(bytes);
  if (thin && thin->size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return invalid(where, "is larger than 2 GiB without its weights");
  if (!thin || !model.ParseFromString(*thin) || !model.has_graph())
    return invalid(where, "is not an ONNX model, or is truncated", "fetch or export the file again");
  return Unit{};
}

int opset_of(const onnx::ModelProto& model) {
  for (const auto& opset : model.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx")
      return static_cast<int>(std::clamp<std::int64_t>(opset.version(), 1, std::numeric_limits<int>::max()));
  return 1;
}

bool stays_inside(std::string location) {
  std::replace(location.begin(), location.end(), '\\', '/');
  const std::filesystem::path path{location};
  return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

std::optional<std::vector<std::int64_t>> external_numbers(const onnx::TensorProto& tensor,
                                                          const std::filesystem::path& folder) {
  std::string location;
  std::uint64_t offset = 0, length = 0;
  const auto number = [](const std::string& text, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
  };
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset" && !number(entry.value(), offset)) return std::nullopt;
    if (entry.key() == "length" && !number(entry.value(), length)) return std::nullopt;
  }
  if (location.empty() || !stays_inside(location) || length > kKeptBytes) return std::nullopt;
  std::filesystem::path path = folder;
  std::error_code error;
  for (const auto& part : std::filesystem::path{location}) {
    path /= part;
    if (std::filesystem::is_symlink(path, error)) return std::nullopt;
  }
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error || offset > size) return std::nullopt;
  if (length == 0) length = size - offset;
  if (length > std::min<std::uint64_t>(size - offset, kKeptBytes)) return std::nullopt;
  std::string raw(length, '\0');
  std::ifstream file{path, std::ios::binary};
  if (!file.seekg(static_cast<std::streamoff>(offset)).read(raw.data(), static_cast<std::streamsize>(length)))
    return std::nullopt;
  onnx::TensorProto whole = tensor;
  whole.set_raw_data(std::move(raw));
  return whole_numbers(whole);
}

const onnx::AttributeProto* find(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

std::string kind_of(const onnx::NodeProto& node) {
  const std::string& domain = node.domain();
  return domain.empty() || domain == "ai.onnx" ? node.op_type() : domain + "::" + node.op_type();
}

std::string onnx_scope(const onnx::NodeProto& node) {
  const std::string* scopes = nullptr;
  const std::string* space = nullptr;
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() == "pkg.torch.onnx.name_scopes") scopes = &entry.value();
    if (entry.key() == "namespace") space = &entry.value();
  }
  if (scopes != nullptr) return module_of(list_of(*scopes));
  if (space != nullptr) return module_of(levels_of(*space));
  std::string_view name = node.name();
  while (name.starts_with('/')) name.remove_prefix(1);
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string{} : std::string{name.substr(0, slash)};
}

std::int64_t elements_or_max(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(n, dim, &n)) return std::numeric_limits<std::int64_t>::max();
  }
  return n;
}

std::optional<std::vector<std::int64_t>> whole_numbers(const onnx::TensorProto& tensor) {
  std::vector<std::int64_t> values;
  const std::int64_t n =
      elements_or_max({tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())});
  if (n < 0 || n > static_cast<std::int64_t>(kKeptBytes) || !take_whole(tensor, values) ||
      static_cast<std::int64_t>(values.size()) != n)
    return std::nullopt;
  return values;
}

std::optional<std::vector<double>> real_numbers(const onnx::TensorProto& tensor) {
  std::vector<double> values;
  bool taken = false;
  if (tensor.data_type() == onnx::TensorProto::FLOAT)
    taken = take<float>(tensor, tensor.float_data(), values);
  else if (tensor.data_type() == onnx::TensorProto::DOUBLE)
    taken = take<double>(tensor, tensor.double_data(), values);
  const std::int64_t n =
      elements_or_max({tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())});
  if (!taken || static_cast<std::int64_t>(values.size()) != n) return std::nullopt;
  return values;
}

}  // namespace emplace::onnx_io
