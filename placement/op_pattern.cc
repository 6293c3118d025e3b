#include "placement/op_pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/text/words.h"

namespace emplace {
namespace {

/// One compiled expression; an empty one matches everything.
class Expression {
 public:
  explicit Expression(const std::string& text) {
    if (!text.empty()) compiled_ = std::make_unique<RE2>(text, RE2::Quiet);
  }
  bool matches(std::string_view text) const {
    return compiled_ == nullptr || RE2::PartialMatch(re2::StringPiece{text.data(), text.size()}, *compiled_);
  }

 private:
  std::unique_ptr<RE2> compiled_;
};

/// The device requested in the op's file, or "".
std::string requested_device(const OpGraph& graph, OpId op) {
  const std::string_view text = graph.attrs_json(op);
  if (text.find("\"device\":") == std::string_view::npos) return {};  // Most ops request no device.
  const auto attrs = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!attrs.is_object() || !attrs.contains("device") || !attrs["device"].is_string()) return {};
  return attrs["device"].get<std::string>();
}

/// The literal part of an expression: 'encoder/.*' → "encoder/".
std::string literal(const std::string& pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      if (std::string_view{"dwsbDWSBAz"}.find(pattern[++i]) == std::string_view::npos) text += pattern[i];
    } else if (std::string_view{"^$.*+?()[]{}|"}.find(pattern[i]) == std::string_view::npos) {
      text += pattern[i];
    }
  }
  return text;
}

/// Returns "the nearest is 'encoder/'", among the words and their prefixes up to a separator; examples of
/// them if none is similar.
std::string nearest(const std::string& pattern, const std::vector<std::string_view>& words) {
  std::vector<std::string_view> candidates;
  std::unordered_set<std::string_view> seen;
  const auto add = [&](std::string_view word) {
    if (!word.empty() && seen.insert(word).second) candidates.push_back(word);
  };
  for (const std::string_view word : words) {
    add(word);
    for (std::size_t i = 1; i < word.size(); ++i) {
      if (word[i] != '/' && word[i] != '.' && word[i] != ':' && word[i] != '#') continue;
      add(word.substr(0, i));
      add(word.substr(0, i + 1));
    }
  }
  const std::string_view near = nearest_word(literal(pattern), candidates);
  if (!near.empty()) return "the nearest is '" + printable(near, 60) + "'";
  std::string examples;
  for (std::size_t i = 0; i < std::min<std::size_t>(candidates.size(), 3); ++i)
    examples.append(i == 0 ? "none is similar; examples: '" : ", '").append(printable(candidates[i], 60)) +=
        "'";
  return examples;
}

}  // namespace

std::string OpPattern::text() const {
  std::string out;
  for (const auto& [key, expression] : kPatternKeys) {
    if ((this->*expression).empty()) continue;
    out.append(out.empty() ? "" : ", ").append(key);
    out += " = '" + printable(this->*expression, 60) + "'";
  }
  return out;
}

Result<Unit> check_expression(const std::string& expression) {
  const RE2 compiled{expression, RE2::Quiet};
  if (compiled.ok()) return Unit{};
  return invalid("", "is not a regular expression: " + printable(compiled.error(), 80));
}

std::vector<bool> ops_matching(const OpGraph& graph, const OpPattern& pattern) {
  const Expression name{pattern.name}, type{pattern.type}, scope{pattern.scope}, phase{pattern.phase},
      device{pattern.device};
  // Types, scopes and phases are few: match each distinct value once.
  std::vector<bool> types, scopes, matched(graph.num_ops());
  for (std::size_t t = 0; t < graph.num_types(); ++t)
    types.push_back(type.matches(graph.type_name(static_cast<TypeId>(t))));
  for (std::uint32_t g = 0; g < graph.num_groups(); ++g) scopes.push_back(scope.matches(graph.group_name(g)));
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    matched[i] = types[index(graph.type(op))] && scopes[graph.group(op)] &&
                 phase.matches(phase_name(graph.phase(op))) && name.matches(graph.name(op)) &&
                 (pattern.device.empty() || device.matches(requested_device(graph, op)));
  }
  return matched;
}

std::string nearest_to(const OpGraph& graph, const OpPattern& pattern) {
  std::vector<std::string_view> words;
  std::string hint;
  // Blame the first expression that matches nothing by itself.
  const auto check = [&](const std::string& expression, auto&& collect) {
    if (expression.empty() || !hint.empty()) return;
    words.clear();
    collect();
    const Expression alone{expression};
    if (hint.empty() &&
        std::none_of(words.begin(), words.end(), [&](std::string_view word) { return alone.matches(word); }))
      hint = nearest(expression, words);
  };
  check(pattern.name, [&] {
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) words.push_back(graph.name(OpId{i}));
  });
  check(pattern.type, [&] {
    for (std::size_t t = 0; t < graph.num_types(); ++t)
      words.push_back(graph.type_name(static_cast<TypeId>(t)));
  });
  check(pattern.scope, [&] {
    for (std::uint32_t g = 0; g < graph.num_groups(); ++g) words.push_back(graph.group_name(g));
  });
  check(pattern.phase, [&] {
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate})
      words.push_back(phase_name(phase));
  });
  std::vector<std::string> requested;
  check(pattern.device, [&] {
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) requested.push_back(requested_device(graph, OpId{i}));
    words.assign(requested.begin(), requested.end());
    if (std::all_of(words.begin(), words.end(), [](std::string_view word) { return word.empty(); }))
      hint = "no op of the graph requests a device";
  });
  return hint.empty() ? "each expression matches some op, but no op matches all" : hint;
}

}  // namespace emplace
