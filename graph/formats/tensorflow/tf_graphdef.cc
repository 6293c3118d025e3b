#include "graph/formats/tensorflow/tf_graphdef.h"

#include <fmt/core.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <tf_graphdef.pb.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/text/words.h"
#include "graph/formats/tensorflow/tf_saved_model.h"

namespace emplace {
namespace {

/// Stores the first error of the text parser.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty())
      text = fmt::format("line {}, column {}: {}", line + 1, column + 1, printable(message, 160));
  }
  std::string text;
};

/// The message type of a TensorFlow file.
enum class FileKind : std::uint8_t { kNone, kGraphDef, kMetaGraphDef, kSavedModel };

FileKind text_kind(std::string_view text) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with('#')) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  struct Field {
    std::string_view name;
    FileKind kind;
  };
  for (const Field& field : {Field{"node", FileKind::kGraphDef},
                             {"versions", FileKind::kGraphDef},
                             {"library", FileKind::kGraphDef},
                             {"meta_info_def", FileKind::kMetaGraphDef},
                             {"graph_def", FileKind::kMetaGraphDef},
                             {"saver_def", FileKind::kMetaGraphDef},
                             {"collection_def", FileKind::kMetaGraphDef},
                             {"signature_def", FileKind::kMetaGraphDef},
                             {"object_graph_def", FileKind::kMetaGraphDef},
                             {"saved_model_schema_version", FileKind::kSavedModel},
                             {"meta_graphs", FileKind::kSavedModel}}) {
    if (!text.starts_with(field.name)) continue;
    const std::string_view rest = text.substr(field.name.size());
    const std::size_t next = rest.find_first_not_of(" \t\r\n");
    if (next != std::string_view::npos && (rest[next] == '{' || rest[next] == '<' || rest[next] == ':'))
      return field.kind;
  }
  return FileKind::kNone;
}

/// A field of a message in protobuf's wire format.
struct Field {
  std::uint64_t number = 0;  ///< Field number; 0 if the bytes are not a message.
  std::span<const std::byte> content,
      rest;  ///< Content, as far as the file has it, of a field with a length.
  bool varint = false;
};

Field field_at(std::span<const std::byte> bytes) {
  if (bytes.empty() || (bytes[0] & std::byte{0x80}) != std::byte{0}) return {};
  const auto kind = std::to_integer<int>(bytes[0] & std::byte{7});
  const auto number = std::to_integer<std::uint64_t>(bytes[0] >> 3);
  if (kind != 0 && kind != 2) return {};
  std::uint64_t length = 0;
  for (std::size_t at = 1; at < bytes.size() && at < 6; ++at) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at]);
    length |= (byte & 0x7f) << (7 * (at - 1));
    if (byte >= 0x80) continue;
    const auto behind = bytes.subspan(at + 1);
    if (kind == 0) return {number, {}, behind, true};
    const std::size_t size = std::min<std::uint64_t>(length, behind.size());
    return {number, behind.first(size), behind.subspan(size)};
  }
  return {};
}

/// Finds the first field `number` with a length in a message with fields up to `last`, of which only `whole`
/// is a whole number. Writers may order fields as they like. Returns nothing if the bytes are another
/// message.
std::span<const std::byte> field_of(std::span<const std::byte> bytes, std::uint64_t number,
                                    std::uint64_t last, std::uint64_t whole) {
  while (!bytes.empty()) {
    const Field field = field_at(bytes);
    if (field.number == 0 || field.number > last || field.varint != (field.number == whole)) return {};
    if (field.number == number) return field.content;
    bytes = field.rest;
  }
  return {};
}

bool is_graphdef(std::span<const std::byte> bytes) {
  // The other first field of a file's messages, a library's function, has no second field.
  const auto node = field_of(bytes, 1, 5, 3), name = field_of(node, 1, 7, 0);
  if (name.empty() || field_of(node, 2, 7, 0).empty()) return false;
  // TensorFlow names start with a letter, digit or '.'; the white space of other formats does not.
  const char first = static_cast<char>(name[0]);
  return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || (first >= '0' && first <= '9') ||
         first == '.' || first == '_';
}

bool is_meta_graph(std::span<const std::byte> bytes) { return is_graphdef(field_of(bytes, 2, 7, 0)); }

FileKind binary_kind(std::span<const std::byte> bytes) {
  if (is_meta_graph(bytes)) return FileKind::kMetaGraphDef;
  if (is_graphdef(bytes)) return FileKind::kGraphDef;
  return is_meta_graph(field_of(bytes, 2, 2, 1)) ? FileKind::kSavedModel : FileKind::kNone;
}

/// Parses a message in binary or text form.
template <class Message>
Result<Message> message_of(std::span<const std::byte> bytes, bool text, std::string_view what,
                           std::string_view where) {
  Message message;
  const auto size = static_cast<int>(bytes.size());
  if (text) {
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.AllowUnknownField(true);
    parser.SetRecursionLimit(64);
    google::protobuf::io::ArrayInputStream stream{bytes.data(), size};
    if (!parser.Parse(&stream, &message))
      return invalid(where,
                     error.text.empty() ? "is not a " + std::string{what} + " in text form" : error.text,
                     "expected a " + std::string{what} + " in protobuf's text form");
  } else if (!message.ParseFromArray(bytes.data(), size)) {
    return invalid(where, "is not a TensorFlow " + std::string{what} + ", or is truncated",
                   "write the file again");
  }
  return message;
}

}  // namespace

bool looks_like_tf_graphdef(std::span<const std::byte> bytes) {
  return binary_kind(bytes) != FileKind::kNone || text_kind(text_of(bytes)) != FileKind::kNone;
}

Result<OpGraph> parse_tf_graphdef(std::span<const std::byte> bytes, std::string_view where,
                                  const OpenDims& dims) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return invalid(where, "is larger than 2 GiB");
  FileKind kind = text_kind(text_of(bytes));
  const bool text = kind != FileKind::kNone;
  if (!text) kind = binary_kind(bytes);
  for (const std::string_view packed : {".gz", ".zst", ""})
    if (kind == FileKind::kNone && where.ends_with(".meta" + std::string{packed}))
      kind = FileKind::kMetaGraphDef;
  tf::Served served;
  if (kind == FileKind::kSavedModel) {
    EMPLACE_TRY_ASSIGN(const auto model, message_of<tf::SavedModel>(bytes, text, "SavedModel", where));
    EMPLACE_TRY_ASSIGN(served, tf::served_by(model, where));
  } else if (kind == FileKind::kMetaGraphDef) {
    EMPLACE_TRY_ASSIGN(auto meta, message_of<tf::MetaGraphDef>(bytes, text, "MetaGraphDef", where));
    served.graph = std::move(*meta.mutable_graph_def());
  } else {
    EMPLACE_TRY_ASSIGN(served.graph, message_of<tf::GraphDef>(bytes, text, "GraphDef", where));
  }
  if (served.graph.node_size() == 0)
    return invalid(where, "has no nodes",
                   "expected a GraphDef, a MetaGraphDef or a SavedModel, not a checkpoint");
  return tf::read_graph(std::move(served), dims, where);
}

}  // namespace emplace
