#include "graph/formats/onnx/onnx_model.h"

#include <onnx.pb.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/text/words.h"

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

/// Copies protobuf messages field by field in wire format.
class Copier {
 public:
  explicit Copier(std::span<const std::byte> bytes)
      : at_{reinterpret_cast<const char*>(bytes.data())}, end_{at_ + bytes.size()} {}

  bool copy(Message message, int depth, std::string& out) {
    constexpr int kDeepest = 100;  // Same depth limit as protobuf's parser.
    if (depth > kDeepest) return false;
    while (at_ < end_) {
      const char* const begin = at_;
      std::uint64_t tag = 0, length = 0;
      if (!varint(tag)) return false;
      const std::uint64_t field = tag >> 3;
      switch (tag & 7) {
        case 0:
          if (!varint(length)) return false;
          break;
        case 1:
          length = 8;
          if (!skip(length)) return false;
          break;
        case 5:
          length = 4;
          if (!skip(length)) return false;
          break;
        case 2: {
          if (!varint(length) || length > static_cast<std::uint64_t>(end_ - at_)) return false;
          const Message holds = field_of(message, field);
          if (message == Message::kTensor && holds_contents(field) && length > kKeptBytes) {
            at_ += length;
            continue;
          }
          if (holds == Message::kOther) {
            at_ += length;
            break;
          }
          std::string inner;
          Copier nested{{reinterpret_cast<const std::byte*>(at_), static_cast<std::size_t>(length)}};
          if (!nested.copy(holds, depth + 1, inner)) return false;
          at_ += length;
          put_varint(tag, out);
          put_varint(inner.size(), out);
          out += inner;
          continue;
        }
        default:
          return false;
      }
      out.append(begin, at_);
    }
    return true;
  }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at_ < end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool skip(std::uint64_t length) {
    if (length > static_cast<std::uint64_t>(end_ - at_)) return false;
    at_ += length;
    return true;
  }
  static void put_varint(std::uint64_t value, std::string& out) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
    out += static_cast<char>(value);
  }

  const char* at_;
  const char* const end_;
};

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

}  // namespace

std::optional<std::string> without_weights(std::span<const std::byte> model) {
  std::string out;
  if (!Copier{model}.copy(Message::kModel, 0, out)) return std::nullopt;
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

const onnx::AttributeProto* find(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

std::string kind_of(const onnx::NodeProto& node) {
  const std::string& domain = node.domain();
  return domain.empty() || domain == "ai.onnx" ? node.op_type() : domain + "::" + node.op_type();
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

std::string in_quotes(std::string_view name) { return "'" + printable(name, 80) + "'"; }

}  // namespace emplace::onnx_io
