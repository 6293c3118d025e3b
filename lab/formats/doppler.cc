#include "lab/formats/doppler.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "lab/formats/node_order.h"

namespace emplace {
namespace {

constexpr std::int64_t kLargestNumber = 1'000'000'000'000'000;
constexpr double kCostPerUs = 1e4;  // DOPPLER divides its costs by 10^10 to get seconds.

std::string_view cut_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
    line.remove_suffix(1);
  return line;
}

/// Parses "1, 2,3,"; nothing if the line contains anything else, or a number beyond kLargestNumber.
std::optional<std::vector<std::int64_t>> numbers(std::string_view line) {
  std::vector<std::int64_t> all;
  while (!line.empty()) {
    if (line[0] == ' ' || line[0] == ',') {
      line.remove_prefix(1);
      continue;
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc{} || value < 0 || value > kLargestNumber) return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    all.push_back(value);
  }
  return all;
}

class DopplerReader {
 public:
  DopplerReader(std::string_view text, std::string_view where) : text_{text}, where_{where} {}

  Result<OpGraph> read() {
    for (auto& list : lists_) {
      auto read = numbers(next());
      if (!read) return fail("is not a list of numbers up to 10^15");
      list = *std::move(read);
    }
    if (lists_[0].size() != 1) return fail_at(1, "is not a number of nodes");
    if (lists_[2].size() != lists_[3].size())
      return fail(fmt::format("has {} readers for {} producers", lists_[3].size(), lists_[2].size()));
    while (!text_.empty()) EMPLACE_TRY(read_node());
    const std::size_t all = ops_.size() + lists_[1].size();
    if (static_cast<std::size_t>(lists_[0][0]) != all)
      return fail_at(1, fmt::format("declares {} nodes, but the file has {}", lists_[0][0], all),
                     "count inputs and node lines");
    EMPLACE_TRY(read_edges());
    return build();
  }

 private:
  Error fail_at(std::size_t line, std::string_view what, std::string_view cure = {}) const {
    return invalid(fmt::format("{}: line {}", where_, line), what, cure);
  }
  Error fail(std::string_view what) const { return fail_at(line_, what); }
  std::string_view next() {
    ++line_;
    return cut_line(text_);
  }

  Result<Unit> read_node() {
    const std::string_view line = next();
    if (line.empty()) return Unit{};
    const std::size_t kind = std::min(line.find_last_of("0123456789") + 1, line.size());
    const auto costs = numbers(line.substr(0, kind));
    const std::string_view word = line.substr(std::min(line.find_first_not_of(", ", kind), line.size()));
    const bool name = std::all_of(word.begin(), word.end(),
                                  [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; });
    if (!costs || costs->size() != 2 || !name)
      return fail("is not a node; write COMPUTE,TRANSFER or COMPUTE,TRANSFER,KIND");
    OpSpec op;
    op.name = fmt::format("node{}", ops_.size());
    op.type = word.empty() ? "node" : "node::" + std::string{word};
    op.outputs = {{DType::kU8, {(*costs)[1]}}};
    op.measured_us = {{"gpu", static_cast<double>((*costs)[0]) / kCostPerUs}};
    ops_.push_back(std::move(op));
    return Unit{};
  }

  Result<Unit> read_edges() {
    std::set<std::pair<std::uint32_t, std::uint32_t>> known;
    for (std::size_t k = 0; k < lists_[2].size(); ++k) {
      const std::int64_t from = lists_[2][k], to = lists_[3][k];
      for (const std::int64_t end : {from, to})
        if (end >= static_cast<std::int64_t>(ops_.size()))
          return fail_at(end == from ? 3 : 4, fmt::format("names node {}, which has no line", end));
      if (known.emplace(from, to).second)
        edges_.emplace_back(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to));
    }
    return Unit{};
  }

  Result<OpGraph> build() {
    const auto order = node_order(ops_.size(), edges_);
    if (!order) return invalid(where_, "has a cycle");
    std::vector<std::uint32_t> at(ops_.size());
    for (std::uint32_t k = 0; k < order->size(); ++k) at[(*order)[k]] = k;
    for (const auto& [from, to] : edges_) ops_[to].inputs.push_back({at[from], 0});
    std::string name = std::filesystem::path{where_}.filename().string();
    for (const std::string_view ending : {".gz", ".zst", ".txt"})
      if (name.ends_with(ending) && name.size() > ending.size()) name.resize(name.size() - ending.size());
    OpGraphBuilder builder;
    builder.set_name(std::move(name)).set_source("doppler");
    builder.set_meta_json(
        R"({"kind":"measured","notes":["times are those of DOPPLER's simulator: 10^10 of its units are a second"]})");
    for (const std::uint32_t number : *order) builder.add(std::move(ops_[number]));
    auto graph = std::move(builder).build();
    if (!graph) return invalid(where_, graph.error().context);
    return graph;
  }

  std::string_view text_;
  const std::string_view where_;
  std::size_t line_ = 0;
  std::vector<std::int64_t> lists_[4];  // Nodes, inputs, producers, readers.
  std::vector<OpSpec> ops_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
};

}  // namespace

bool looks_like_doppler(std::span<const std::byte> bytes) {
  std::string_view text = text_of(bytes);
  const std::string_view count = cut_line(text);
  if (count.empty() || count.size() > 15 ||
      !std::all_of(count.begin(), count.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
    return false;
  for (int line = 0; line < 3; ++line) {
    if (text.empty()) return false;
    const std::string_view list = cut_line(text);
    if (list.find_first_not_of("0123456789, ") != std::string_view::npos) return false;
  }
  return true;
}

Result<OpGraph> parse_doppler(std::span<const std::byte> bytes, std::string_view where) {
  return DopplerReader{text_of(bytes), where}.read();
}

}  // namespace emplace
