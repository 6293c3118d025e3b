#include "graph/op_kind.h"

#include <array>
#include <unordered_map>
#include <vector>

#include "graph/op_kind_table.h"

namespace emplace {
namespace {

constexpr std::size_t kVocabularies = 5;

/// Returns whether the text matches the pattern; every '*' matches any text.
bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  text.remove_prefix(star);
  if (pattern.find('*') == std::string_view::npos) return text.ends_with(pattern);
  for (; !text.empty(); text.remove_prefix(1))
    if (matches(text, pattern)) return true;
  return matches(text, pattern);
}

/// The rows of a vocabulary, indexed by name.
class Index {
 public:
  explicit Index(std::span<const OpKindRow> rows) {
    for (const OpKindRow& row : rows) {
      for (std::string_view rest = row.types; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        kinds_.push_back({rest.substr(0, end), row.op_class, row.work, row.view, row.state});
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    const auto is_pattern = [](const OpKind& kind) { return kind.name.find('*') != std::string_view::npos; };
    first_pattern_ =
        static_cast<std::size_t>(std::find_if(kinds_.begin(), kinds_.end(), is_pattern) - kinds_.begin());
    by_name_.reserve(first_pattern_);
    for (std::size_t k = 0; k < first_pattern_; ++k) by_name_.emplace(kinds_[k].name, k);
  }

  const OpKind* exact(std::string_view name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &kinds_[it->second];
  }
  const OpKind* find(std::string_view name) const {
    if (const OpKind* kind = exact(name)) return kind;
    for (std::size_t k = first_pattern_; k < kinds_.size(); ++k)
      if (matches(name, kinds_[k].name)) return &kinds_[k];
    return nullptr;
  }
  std::span<const OpKind> kinds() const { return kinds_; }

 private:
  std::vector<OpKind> kinds_;
  std::size_t first_pattern_ = 0;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

const Index& index_of(Vocabulary vocabulary) {
  static const std::array<Index, kVocabularies> kIndex{
      Index{kind_rows(Vocabulary::kGraph)}, Index{kind_rows(Vocabulary::kAten)},
      Index{kind_rows(Vocabulary::kOnnx)}, Index{kind_rows(Vocabulary::kTensorFlow)},
      Index{kind_rows(Vocabulary::kHlo)}};
  return kIndex[static_cast<std::size_t>(vocabulary)];
}

}  // namespace

std::string_view op_class_name(OpClass op_class) {
  static constexpr std::array<std::string_view, kNumOpClasses> kNames{
      "state", "view", "matmul", "conv", "conv_grouped", "norm", "reduce", "gather", "elementwise"};
  return kNames[static_cast<std::size_t>(op_class)];
}

const OpKind* find_kind(Vocabulary vocabulary, std::string_view name) {
  return index_of(vocabulary).find(name);
}

std::span<const OpKind> kinds_of(Vocabulary vocabulary) { return index_of(vocabulary).kinds(); }

OpClass class_of_type(std::string_view type) {
  const auto without = [&](std::string_view space) { return type.substr(space.size()); };
  const OpKind* kind = nullptr;
  if (type.starts_with("aten::")) {
    kind = index_of(Vocabulary::kAten).exact(without("aten::"));
  } else if (type.starts_with("hlo::")) {
    kind = index_of(Vocabulary::kHlo).exact(without("hlo::"));
  } else {
    // A name that is in several vocabularies has the same class in all of them.
    for (const Vocabulary vocabulary : {Vocabulary::kGraph, Vocabulary::kOnnx, Vocabulary::kTensorFlow})
      if (kind == nullptr) kind = index_of(vocabulary).exact(type);
  }
  return kind == nullptr ? OpClass::kElementwise : kind->op_class;
}

}  // namespace emplace
