#include "placement/applied_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text/words.h"

namespace emplace {
namespace {

Error matches_nothing(const OpGraph& graph, const Rule& rule) {
  return invalid(rule.where, "the rule for " + rule.match.text() + " matches no op",
                 nearest_to(graph, rule.match) + "; or set optional = true");
}

/// The devices named by a pin, an allow or a forbid.
Result<DeviceMask> named_devices(const DeviceSet& devices, const Rule& rule) {
  DeviceMask mask;
  for (const std::string& wanted : rule.devices) {
    if (wanted.ends_with('*')) {
      const std::string_view prefix = std::string_view{wanted}.substr(0, wanted.size() - 1);
      const DeviceMask found = devices.starting_with(prefix);
      if (found.none())
        return invalid(rule.where, "no device name starts with '" + printable(prefix, 60) + "'",
                       "the first device is '" + printable(devices[DeviceId{0}].name, 60) + "'");
      mask |= found;
      continue;
    }
    const auto device = devices.find(wanted);
    if (!device) return invalid(rule.where, device.error().context);
    mask.set(index(*device));
  }
  return mask;
}

/// The devices that a pin, an allow or a forbid leaves its ops.
Result<DeviceMask> devices_of(const DeviceSet& devices, const Rule& rule) {
  EMPLACE_TRY_ASSIGN(DeviceMask mask, named_devices(devices, rule));
  if (rule.kind != RuleKind::kForbid) return mask;
  const DeviceMask others = first_devices(devices.size()) & ~mask;
  if (others.none())
    return invalid(rule.described(), "forbids every device of this machine", "leave its ops at least one");
  return others;
}

/// The ops that a rule matches, as a mask and as a list.
struct Matches {
  std::vector<bool> of;   // [ops]
  std::vector<OpId> ops;  // [matched ops]
};

/// Returns whether the ops of `inner` are a proper subset of the ops of `outer`.
bool is_exception(const Matches& inner, const Matches& outer) {
  return inner.ops.size() < outer.ops.size() &&
         std::all_of(inner.ops.begin(), inner.ops.end(), [&](OpId op) { return bool{outer.of[index(op)]}; });
}

/// [ops] The op that each op is colocated with: the first forward op that it reads (or the first op, with
/// `any_phase`), else the companion of its first input's producer; itself if there is none.
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
      Matches matches{ops_matching(graph_, rule.match), {}};
      for (std::uint32_t i = 0; i < n; ++i)
        if (matches.of[i]) matches.ops.push_back(OpId{i});
      if (matches.ops.empty() && !rule.optional) return matches_nothing(graph_, rule);
      out_.matched.push_back(matches.ops.size());
      matches_.push_back(std::move(matches));
      EMPLACE_TRY_ASSIGN(const auto mask, devices_of(devices_, rule));
      masks_.push_back(mask);
    }
    out_.devices.assign(n, first_devices(devices_.size()));
    out_.device_rule.assign(n, kNoRule);
    out_.colocation_rule.assign(n, kNoRule);
    EMPLACE_TRY(choose_devices());
    tie();
    return std::move(out_);
  }

 private:
  bool places(std::size_t rule) const {
    const RuleKind kind = out_.rules[rule].kind;
    return kind == RuleKind::kPin || kind == RuleKind::kAllow || kind == RuleKind::kForbid;
  }

  Result<Unit> choose_devices() {
    const std::size_t count = out_.rules.size();
    std::vector<std::vector<std::size_t>> exceptions(count);  // [rules] Earlier exceptions to each rule.
    for (std::size_t later = 0; later < count; ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier)
        if (places(earlier) && places(later) && is_exception(matches_[earlier], matches_[later]))
          exceptions[later].push_back(earlier);
    }
    std::vector<std::size_t> active;
    for (std::uint32_t op = 0; op < graph_.num_ops(); ++op) {
      active.clear();
      for (std::size_t r = 0; r < count; ++r) {
        if (!places(r) || !matches_[r].of[op]) continue;
        const bool replaced =
            std::any_of(exceptions[r].begin(), exceptions[r].end(),
                        [&](std::size_t earlier) { return bool{matches_[earlier].of[op]}; });
        if (!replaced) active.push_back(r);
      }
      for (const std::size_t r : active) {
        out_.devices[op] &= masks_[r];
        std::uint32_t& decided = out_.device_rule[op];
        const bool pins = out_.rules[r].kind == RuleKind::kPin;
        if (decided == kNoRule || (pins && out_.rules[decided].kind != RuleKind::kPin))
          decided = static_cast<std::uint32_t>(r);
      }
      if (out_.devices[op].none()) return contradiction(OpId{op}, active);
    }
    return Unit{};
  }

  Error contradiction(OpId op, const std::vector<std::size_t>& active) const {
    std::size_t first = active.front(), second = active.back();
    for (std::size_t a = 0; a < active.size(); ++a) {
      for (std::size_t b = a + 1; b < active.size(); ++b) {
        if ((masks_[active[a]] & masks_[active[b]]).any()) continue;
        first = active[a], second = active[b];
        a = b = active.size();
      }
    }
    return invalid(out_.rules[second].described(),
                   "contradicts " + out_.rules[first].described() + " on " + quoted_op(graph_, op),
                   "put the rule for fewer ops first to make it an exception");
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
      for (const OpId op : matches_[r].ops) {
        const OpId with =
            of != nullptr ? (*of)[index(op)] : first_of.try_emplace(rule.label, op).first->second;
        if (out_.colocation_rule[index(op)] == kNoRule) out_.colocation_rule[index(op)] = r;
        if (with != op) out_.ties.push_back({op, with, r});
      }
    }
  }

  const OpGraph& graph_;
  const DeviceSet& devices_;
  AppliedRules out_;
  std::vector<Matches> matches_;   // [rules]
  std::vector<DeviceMask> masks_;  // [rules]
};

}  // namespace

std::vector<std::string> AppliedRules::lines() const {
  std::vector<std::string> out;
  for (std::size_t r = 0; r < rules.size(); ++r) {
    out.push_back(
        fmt::format("{} matches {}{}", rules[r].described(), matched[r], matched[r] == 1 ? " op" : " ops"));
  }
  return out;
}

Result<AppliedRules> apply_rules(const OpGraph& graph, const DeviceSet& devices, const RuleSet& rules) {
  if (rules.rules.empty()) return AppliedRules{};
  return Resolver{graph, devices, rules}.run();
}

}  // namespace emplace
