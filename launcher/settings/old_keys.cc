// Old config keys and values. Files and records that have them stay readable.
#include <fmt/format.h>

#include <array>

#include "base/text/toml_reader.h"
#include "launcher/settings/config.h"

namespace emplace::launcher {
namespace {

struct MovedKey {
  std::string_view old_key, new_key;
};

/// Old and new keys. A key that several methods had has a row for each.
constexpr std::array kMoved{
    MovedKey{"compare.baselines", "compare.methods"},
    MovedKey{"policy.objective", "policy.loss"},
    MovedKey{"policy.vocabulary", "policy.features.vocabulary"},
    MovedKey{"policy.feature_outputs", "policy.features.outputs"},
    MovedKey{"policy.feature_dims", "policy.features.dims"},
    MovedKey{"policy.feature_neighbours", "policy.features.neighbours"},
    MovedKey{"policy.scaled_features", "policy.features.scaled"},
    MovedKey{"policy.hidden", "policy.hierarchical.hidden"},
    MovedKey{"policy.hidden", "policy.sequence.hidden"},
    MovedKey{"policy.hidden", "policy.placeto.hidden"},
    MovedKey{"policy.hidden", "policy.sweep.hidden"},
    MovedKey{"policy.grouper_hidden", "policy.hierarchical.grouper_hidden"},
    MovedKey{"policy.grouper_hidden", "policy.simple-planner.hidden"},
    MovedKey{"policy.type_embedding", "policy.hierarchical.type_embedding"},
    MovedKey{"policy.type_embedding", "policy.sequence.embedding"},
    MovedKey{"policy.type_embedding", "policy.simple-planner.type_embedding"},
    MovedKey{"policy.tanh_constant", "policy.hierarchical.tanh_constant"},
    MovedKey{"policy.tanh_constant", "policy.sequence.tanh_constant"},
    MovedKey{"policy.temperature", "policy.hierarchical.temperature"},
    MovedKey{"policy.temperature", "policy.sequence.temperature"},
    MovedKey{"policy.sees_group", "policy.hierarchical.sees_group"},
    MovedKey{"policy.sees_group", "policy.sequence.sees_group"},
    MovedKey{"policy.table_scale", "policy.hierarchical.table_scale"},
    MovedKey{"policy.table_scale", "policy.sequence.table_scale"},
    MovedKey{"policy.start_at_scopes", "policy.hierarchical.start_at_scopes"},
    MovedKey{"policy.grouper_scale", "policy.hierarchical.grouper_scale"},
    MovedKey{"policy.grouper_confidence", "policy.hierarchical.grouper_confidence"},
    MovedKey{"policy.layers", "policy.sequence.layers"},
    MovedKey{"policy.embedding", "policy.placeto.embedding"},
    MovedKey{"policy.rounds", "policy.placeto.rounds"},
    MovedKey{"policy.passes", "policy.placeto.passes"},
    MovedKey{"policy.traversal", "policy.placeto.traversal"},
    MovedKey{"policy.means", "policy.placeto.means"},
    MovedKey{"policy.logit_bound", "policy.placeto.logit_bound"},
    MovedKey{"policy.logit_bound", "policy.sweep.logit_bound"},
    MovedKey{"policy.stay", "policy.placeto.stay"},
    MovedKey{"policy.stay", "policy.sweep.stay"},
};

/// Whether a key belongs to the section of one method: "policy.placeto.hidden".
bool is_of_a_method(std::string_view key) {
  return key.starts_with("policy.") && key.rfind('.') > key.find('.') && !key.starts_with("policy.features.");
}

/// Returns the new key of a method among the rows from `first` to `last`; empty if the method has none.
std::string_view target_of(std::size_t first, std::size_t last, std::string_view method) {
  const std::string own = "policy." + std::string{policy::section_of(method)} + ".";
  for (std::size_t row = first; row < last; ++row)
    if (kMoved[row].new_key.starts_with(own) || !is_of_a_method(kMoved[row].new_key))
      return kMoved[row].new_key;
  return {};
}

}  // namespace

std::string old_names_warning(const RunConfig& config) {
  std::string text;
  for (const std::string& name : config.old_names) text.append(text.empty() ? "" : ", ").append(name);
  return text.empty() ? text : text + "; docs/reference/config.md lists every key";
}

Result<std::vector<std::string>> move_old_keys(TomlDocument& document, std::string_view method) {
  std::vector<std::string> moved;
  for (std::size_t first = 0, last = 0; first < kMoved.size(); first = last) {
    const std::string_view old_key = kMoved[first].old_key;
    for (last = first; last < kMoved.size() && kMoved[last].old_key == old_key;) ++last;
    const std::string_view target = target_of(first, last, method);
    EMPLACE_TRY_ASSIGN(const bool found, document.move(old_key, target));
    if (!found) continue;
    std::string text = std::string{old_key} + " is now ";
    if (!target.empty()) {
      text += target;
    } else {
      for (std::size_t row = first; row < last; ++row)
        text.append(row == first ? "" : " or ").append(kMoved[row].new_key);
    }
    moved.push_back(std::move(text));
  }
  if (document.replace_text("run.starts", kBestBaseline, kBestHeuristic))
    moved.push_back(fmt::format("{} is now {}", kBestBaseline, kBestHeuristic));
  return moved;
}

}  // namespace emplace::launcher
