#include "graph/formats/tf_graphdef.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <tf_graphdef.pb.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/text/words.h"
#include "graph/formats/tf_reader.h"

namespace emplace {
namespace {

/// Keeps the first complaint of the text parser.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty())
      text = "line " + std::to_string(line + 1) + ", column " + std::to_string(column + 1) + ": " +
             printable(message, 160);
  }
  std::string text;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool looks_like_text(std::string_view text) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with('#')) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  for (const std::string_view field : {"node", "versions", "library"}) {
    if (!text.starts_with(field)) continue;
    const std::string_view rest = text.substr(field.size());
    const std::size_t next = rest.find_first_not_of(" \t\r\n");
    return next != std::string_view::npos && (rest[next] == '{' || rest[next] == '<' || rest[next] == ':');
  }
  return false;
}

bool looks_like_binary(std::span<const std::byte> bytes) {
  std::size_t at = 0;
  const auto tag_and_length = [&]() -> std::uint64_t {  // Of field 1; 0 if it is another.
    if (at >= bytes.size() || bytes[at++] != std::byte{0x0a}) return 0;
    std::uint64_t length = 0;
    for (int shift = 0; at < bytes.size() && shift < 35; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) return length;
    }
    return 0;
  };
  const std::uint64_t node = tag_and_length(), name = tag_and_length();
  if (name == 0 || name + 2 > node || at >= bytes.size()) return false;
  const char first =
      static_cast<char>(bytes[at]);  // TensorFlow's names begin so; no other format's white space does.
  return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || (first >= '0' && first <= '9') ||
         first == '.' || first == '_';
}

}  // namespace

bool looks_like_tf_graphdef(std::span<const std::byte> bytes) {
  return looks_like_binary(bytes) || looks_like_text(text_of(bytes));
}

Result<OpGraph> parse_tf_graphdef(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return invalid(where, "is larger than 2 GiB");
  tf::GraphDef graph;
  const auto size = static_cast<int>(bytes.size());
  if (looks_like_text(text_of(bytes))) {
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.AllowUnknownField(true);
    parser.SetRecursionLimit(64);
    google::protobuf::io::ArrayInputStream stream{bytes.data(), size};
    if (!parser.Parse(&stream, &graph))
      return invalid(where, error.text.empty() ? "is no GraphDef in text form" : error.text,
                     "it must be a GraphDef in protobuf's text form");
  } else if (!graph.ParseFromArray(bytes.data(), size)) {
    return invalid(where, "is not a TensorFlow GraphDef, or is cut short", "write the file again");
  }
  if (graph.node_size() == 0) return invalid(where, "holds no node", "is it a GraphDef, not a checkpoint?");
  return tf::read_graph(graph, where);
}

}  // namespace emplace
