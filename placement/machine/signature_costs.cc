#include "placement/machine/signature_costs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/hash.h"
#include "base/text/words.h"
#include "graph/tensor_layout.h"

namespace emplace {
namespace {

void append(std::string& text, std::span<const std::int64_t> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
}

void append(std::string& text, const OpGraph& graph, TensorId tensor) {
  text += ' ';
  text += dtype_name(graph.dtype(tensor));
  text += '[';
  append(text, graph.shape(tensor));
  text += ']';
}

/// The tensor that a chain of views starts from.
TensorId root_of(const OpGraph& graph, TensorId tensor) {
  while (graph.is_view(graph.producer(tensor)) && !graph.inputs(graph.producer(tensor)).empty())
    tensor = graph.inputs(graph.producer(tensor))[0];
  return tensor;
}

}  // namespace

std::string signature_text(const OpGraph& graph, OpId op) {
  std::string text{graph.type_name(op)};
  text += ' ';
  text += graph.attrs_json(op);
  for (const TensorId input : graph.inputs(op)) {
    append(text, graph, input);
    const TensorId root = root_of(graph, input);
    if (root == input) continue;
    const auto layout = layout_in(graph, input, root);
    if (!layout) continue;
    const StridedLayout& last = layout->steps.back();
    if (layout->steps.size() == 1 && last.strides == packed_layout(last.shape).strides) continue;
    text += ':';
    append(text, last.strides);
    if (layout->steps.size() > 1) text += " reordered";
  }
  text += " >";
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) append(text, graph, graph.output(op, k));
  return text;
}

std::uint64_t signature_hash(const OpGraph& graph, OpId op) {
  const std::string text = signature_text(graph, op);
  return hash64(std::as_bytes(std::span{text}));
}

SignatureCosts::SignatureCosts(std::vector<Entry> entries) : entries_{std::move(entries)} {
  std::ranges::stable_sort(entries_, {}, &Entry::signature);
  // Not std::ranges::unique: clang 14, which builds the fuzzers, cannot parse its header in g++ 12's library.
  const auto same = [](const Entry& a, const Entry& b) { return a.signature == b.signature; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
}

Result<SignatureCosts::Entry> SignatureCosts::parse_entry(const std::string& text) {
  constexpr std::size_t kDigits = 16;
  Entry entry;
  const char* const end = text.data() + text.size();
  const auto wrong = [&] {
    return invalid("cost '" + printable(text, 60) + "'", "is malformed",
                   "write 16 hex digits, = and microseconds");
  };
  if (text.size() < kDigits + 2 || text[kDigits] != '=') return wrong();
  const auto hash = std::from_chars(text.data(), text.data() + kDigits, entry.signature, 16);
  const auto us = std::from_chars(text.data() + kDigits + 1, end, entry.us);
  if (hash.ec != std::errc{} || hash.ptr != text.data() + kDigits || us.ec != std::errc{} || us.ptr != end)
    return wrong();
  if (!std::isfinite(entry.us) || entry.us < 0) return wrong();
  return entry;
}

std::string SignatureCosts::entry_text(const Entry& entry) {
  return fmt::format("{:016x}={:.6g}", entry.signature, entry.us);
}

std::optional<double> SignatureCosts::us(std::uint64_t signature) const {
  const auto at = std::ranges::lower_bound(entries_, signature, {}, &Entry::signature);
  return at != entries_.end() && at->signature == signature ? std::optional{at->us} : std::nullopt;
}

}  // namespace emplace
