#pragma once
/// Small parts of every reader: names in a file, sizes of state, and the end of reading.

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/text/words.h"
#include "graph/op_graph.h"

namespace emplace {

/// Quotes a name, made safe for a terminal: "'a/b'".
inline std::string in_quotes(std::string_view name) { return "'" + printable(name, 80) + "'"; }

/// The text without white space at both ends.
inline std::string_view stripped(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kWhite), text.size()));
  return text.substr(0, text.find_last_not_of(kWhite) + 1);
}

/// The name of a graph from the path of its file: without folders, and without each of `endings` in turn.
inline std::string name_of_file(std::string_view path, std::initializer_list<std::string_view> endings) {
  std::string name = std::filesystem::path{path}.filename().string();
  for (const std::string_view ending : endings)
    if (name.ends_with(ending) && name.size() > ending.size()) name.resize(name.size() - ending.size());
  return name;
}

inline bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF8;
}

/// The bytes of tensors; 0 if they are too large or negative, which OpGraphBuilder rejects.
inline std::int64_t bytes_of(std::span<const TensorSpec> tensors) {
  std::int64_t sum = 0;
  for (const TensorSpec& tensor : tensors) {
    std::int64_t bytes = element_bytes(tensor.dtype);
    for (const std::int64_t size : tensor.shape)
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return 0;
    if (__builtin_add_overflow(sum, bytes, &sum)) return 0;
  }
  return sum;
}

/// Builds the graph of file `where`, which errors name.
inline Result<OpGraph> built(OpGraphBuilder&& builder, std::string_view where) {
  auto graph = std::move(builder).build();
  if (!graph) return invalid(where, graph.error().context);
  return graph;
}

}  // namespace emplace
