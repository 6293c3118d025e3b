#include "placement/applied_rules.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "base/text/words.h"

namespace emplace {
namespace {

std::string quoted(const OpGraph& graph, OpId op) { return "op '" + printable(graph.name(op), 80) + "'"; }

/// One pattern of a rule; an empty one matches everything.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    if (!text.empty()) compiled_ = std::make_unique<RE2>(text, RE2::Quiet);
  }
  bool matches(std::string_view text) const {
    return compiled_ == nullptr || RE2::PartialMatch(re2::StringPiece{text.data(), text.size()}, *compiled_);
  }

 private:
  std::unique_ptr<RE2> compiled_;
};

/// [ops] Types, scopes and phases are few and are looked at once each.
std::vector<bool> matches_of(const OpGraph& graph, const Rule& rule) {
  const Pattern name{rule.name}, type{rule.type}, scope{rule.scope}, phase{rule.phase};
  std::vector<bool> types, scopes, matched(graph.num_ops());
  for (std::size_t t = 0; t < graph.num_types(); ++t)
    types.push_back(type.matches(graph.type_name(static_cast<TypeId>(t))));
  for (std::uint32_t g = 0; g < graph.num_groups(); ++g) scopes.push_back(scope.matches(graph.group_name(g)));
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    matched[i] = types[index(graph.type(op))] && scopes[graph.group(op)] &&
                 phase.matches(phase_name(graph.phase(op))) && name.matches(graph.name(op));
  }
  return matched;
}

/// What a pattern says literally: 'encoder/.*' → "encoder/".
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

/// "; the nearest name is 'encoder/'": of the words and of what they begin with, up to a separator.
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
  return candidates.empty() ? "" : "there is for instance '" + printable(candidates.front(), 60) + "'";
}

Error matches_nothing(const OpGraph& graph, const Rule& rule) {
  std::vector<std::string_view> words;
  std::string what, cure;
  const auto look_at = [&](std::string_view key, const std::string& pattern, auto&& collect) {
    if (pattern.empty()) return;
    what += (what.empty() ? "" : ", ") + std::string{key} + " = '" + printable(pattern, 60) + "'";
    words.clear();
    collect();
    // Of several patterns the one that is wrong by itself is the one to mend.
    const Pattern alone{pattern};
    if (cure.empty() &&
        std::none_of(words.begin(), words.end(), [&](std::string_view word) { return alone.matches(word); }))
      cure = nearest(pattern, words);
  };
  look_at("name", rule.name, [&] {
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) words.push_back(graph.name(OpId{i}));
  });
  look_at("type", rule.type, [&] {
    for (std::size_t t = 0; t < graph.num_types(); ++t)
      words.push_back(graph.type_name(static_cast<TypeId>(t)));
  });
  look_at("scope", rule.scope, [&] {
    for (std::uint32_t g = 0; g < graph.num_groups(); ++g) words.push_back(graph.group_name(g));
  });
  look_at("phase", rule.phase, [&] {
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate})
      words.push_back(phase_name(phase));
  });
  if (cure.empty()) cure = "each pattern matches some op, but no op matches all";
  return invalid(rule.where, "the rule for " + what + " matches no op",
                 cure + "; optional = true permits it");
}

/// The devices that a pin or an allow names.
Result<DeviceMask> devices_of(const DeviceSet& devices, const Rule& rule) {
  DeviceMask mask;
  for (const std::string& wanted : rule.devices) {
    if (wanted.ends_with('*')) {
      const std::string_view prefix = std::string_view{wanted}.substr(0, wanted.size() - 1);
      bool found = false;
      for (std::size_t d = 0; d < devices.size(); ++d) {
        if (!devices[static_cast<DeviceId>(d)].name.starts_with(prefix)) continue;
        mask.set(d);
        found = true;
      }
      if (!found)
        return invalid(rule.where, "no device's name begins with '" + printable(prefix, 60) + "'",
                       "the first device is '" + printable(devices[DeviceId{0}].name, 60) + "'");
      continue;
    }
    const auto device = devices.find(wanted);
    if (!device) return invalid(rule.where, device.error().context);
    mask.set(index(*device));
  }
  return mask;
}

/// True if `inner` matches only ops that `outer` matches, and fewer.
bool is_exception(const std::vector<bool>& inner, const std::vector<bool>& outer) {
  bool fewer = false;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] && !outer[i]) return false;
    fewer = fewer || inner[i] != outer[i];
  }
  return fewer;
}

/// [ops] The op that each goes with: the first that it reads of the forward pass (or at all, with
/// `any_phase`), else the one that its first input goes with; itself if there is none.
std::vector<OpId> companions(const OpGraph& graph, bool any_phase) {
  std::vector<OpId> of(graph.num_ops());
  for (const OpId op : graph.topological_order()) {
    of[index(op)] = op;
    if (!any_phase && graph.phase(op) == Phase::kForward) continue;
    const auto inputs = graph.inputs(op);
    if (inputs.empty()) continue;
    OpId companion = any_phase ? graph.producer(inputs.front()) : of[index(graph.producer(inputs.front()))];
    for (const TensorId input : inputs) {
      if (any_phase || graph.phase(graph.producer(input)) != Phase::kForward) continue;
      companion = graph.producer(input);
      break;
    }
    if (any_phase || graph.phase(companion) == Phase::kForward) of[index(op)] = companion;
  }
  return of;
}

class Resolver {
 public:
  Resolver(const OpGraph& graph, const DeviceSet& devices, const RuleSet& rules)
      : graph_{graph}, devices_{devices} {
    out_.rules = rules.rules;
  }

  Result<AppliedRules> run() {
    const std::size_t n = graph_.num_ops();
    for (const Rule& rule : out_.rules) {
      matches_.push_back(matches_of(graph_, rule));
      const auto count =
          static_cast<std::size_t>(std::count(matches_.back().begin(), matches_.back().end(), true));
      if (count == 0 && !rule.optional) return matches_nothing(graph_, rule);
      out_.matched.push_back(count);
      const auto mask = devices_of(devices_, rule);
      if (!mask) return mask.error();
      masks_.push_back(*mask);
    }
    DeviceMask all;
    for (std::size_t d = 0; d < devices_.size(); ++d) all.set(d);
    out_.devices.assign(n, all);
    out_.device_rule.assign(n, kNoRule);
    out_.colocation_rule.assign(n, kNoRule);
    if (auto done = choose_devices(); !done) return done.error();
    tie();
    return std::move(out_);
  }

 private:
  bool places(std::size_t rule) const {
    return out_.rules[rule].kind == RuleKind::kPin || out_.rules[rule].kind == RuleKind::kAllow;
  }

  Result<Unit> choose_devices() {
    const std::size_t count = out_.rules.size();
    std::vector<std::vector<std::size_t>> exceptions(
        count);  // Earlier rules that replace this one on their ops.
    for (std::size_t later = 0; later < count; ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier)
        if (places(earlier) && places(later) && is_exception(matches_[earlier], matches_[later]))
          exceptions[later].push_back(earlier);
    }
    std::vector<std::size_t> holding;
    for (std::uint32_t op = 0; op < graph_.num_ops(); ++op) {
      holding.clear();
      for (std::size_t r = 0; r < count; ++r) {
        const bool replaced = std::any_of(exceptions[r].begin(), exceptions[r].end(),
                                          [&](std::size_t earlier) { return bool{matches_[earlier][op]}; });
        if (places(r) && matches_[r][op] && !replaced) holding.push_back(r);
      }
      for (const std::size_t r : holding) {
        out_.devices[op] &= masks_[r];
        std::uint32_t& decided = out_.device_rule[op];
        const bool pins = out_.rules[r].kind == RuleKind::kPin;
        if (decided == kNoRule || (pins && out_.rules[decided].kind != RuleKind::kPin))
          decided = static_cast<std::uint32_t>(r);
      }
      if (out_.devices[op].none()) return contradiction(OpId{op}, holding);
    }
    return Unit{};
  }

  Error contradiction(OpId op, const std::vector<std::size_t>& holding) const {
    std::size_t first = holding.front(), second = holding.back();
    for (std::size_t a = 0; a < holding.size(); ++a) {
      for (std::size_t b = a + 1; b < holding.size(); ++b) {
        if ((masks_[holding[a]] & masks_[holding[b]]).any()) continue;
        first = holding[a], second = holding[b];
        a = b = holding.size();
      }
    }
    return invalid(out_.rules[second].described(),
                   "contradicts " + out_.rules[first].described() + " on " + quoted(graph_, op),
                   "a rule for fewer ops stands first, as the exception to a wider one");
  }

  void tie() {
    std::map<std::string, OpId> first_of;
    std::vector<OpId> forward, input;
    for (std::uint32_t r = 0; r < out_.rules.size(); ++r) {
      const Rule& rule = out_.rules[r];
      if (places(r)) continue;
      std::vector<OpId>* of = nullptr;
      if (rule.kind == RuleKind::kColocateWith) {
        of = rule.label == "input" ? &input : &forward;
        if (of->empty()) *of = companions(graph_, rule.label == "input");
      }
      for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
        if (!matches_[r][i]) continue;
        const OpId op{i};
        const OpId with = of != nullptr ? (*of)[i] : first_of.try_emplace(rule.label, op).first->second;
        if (out_.colocation_rule[i] == kNoRule) out_.colocation_rule[i] = r;
        if (with != op) out_.ties.push_back({op, with, r});
      }
    }
  }

  const OpGraph& graph_;
  const DeviceSet& devices_;
  AppliedRules out_;
  std::vector<std::vector<bool>> matches_;  // [rules, ops]
  std::vector<DeviceMask> masks_;           // [rules]
};

}  // namespace

std::vector<std::string> AppliedRules::lines() const {
  std::vector<std::string> out;
  for (std::size_t r = 0; r < rules.size(); ++r) {
    out.push_back(rules[r].described() + " matches " + std::to_string(matched[r]) +
                  (matched[r] == 1 ? " op" : " ops"));
  }
  return out;
}

Result<AppliedRules> apply_rules(const OpGraph& graph, const DeviceSet& devices, const RuleSet& rules) {
  if (rules.rules.empty()) return AppliedRules{};
  return Resolver{graph, devices, rules}.run();
}

}  // namespace emplace
