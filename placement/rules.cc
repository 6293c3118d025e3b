#include "placement/rules.h"

#include <optional>
#include <utility>

#include "base/text/toml_reader.h"
#include "base/text/words.h"

namespace emplace {
namespace {

std::string pattern(TomlTable& match, std::string_view key) {
  const auto text = match.text(key);
  if (!text) return {};
  if (text->empty())
    match.fail(key, "is empty and would match everything", "write \".\" to match everything");
  if (const auto checked = check_expression(*text); !checked) match.fail(key, checked.error().context);
  return *text;
}

/// Errors (kInvalid): the rule selects no ops.
Result<Unit> read_match(TomlTable& table, Rule& rule) {
  auto match = table.table("match");
  if (!match)
    return invalid(table.where(), "a rule needs 'match', which selects its ops",
                   "write e.g. match = { name = \"^encoder/\" }");
  for (const auto& [key, expression] : kPatternKeys) rule.match.*expression = pattern(*match, key);
  if (rule.match.empty())
    return invalid(table.where("match"), "'match' has no pattern",
                   "give at least one of name, type, scope, phase and device");
  return Unit{};
}

/// Errors (kInvalid): no action, or several.
Result<Unit> read_action(TomlTable& table, Rule& rule) {
  const auto pin = table.text("pin");
  const auto allow = table.texts("allow");
  const auto forbid = table.texts("forbid");
  const auto colocate = table.text("colocate");
  const auto with = table.text("colocate_with");
  if (int{pin.has_value()} + int{allow.has_value()} + int{forbid.has_value()} + int{colocate.has_value()} +
          int{with.has_value()} !=
      1)
    return invalid(table.where(), "a rule needs one of pin, allow, forbid, colocate and colocate_with",
                   "write e.g. pin = \"cpu:0\", and one rule per action");
  if (pin) {
    rule.kind = RuleKind::kPin;
    rule.devices = {*pin};
    if (pin->ends_with('*'))
      table.fail("pin", "must name one device", "write allow = [\"gpu:*\"] for several");
  } else if (allow) {
    rule.kind = RuleKind::kAllow;
    rule.devices = *allow;
    if (allow->empty()) table.fail("allow", "is empty, so the ops could not run");
  } else if (forbid) {
    rule.kind = RuleKind::kForbid;
    rule.devices = *forbid;
    if (forbid->empty()) table.fail("forbid", "is empty", "name the devices that the ops may not use");
  } else if (colocate) {
    rule.kind = RuleKind::kColocate;
    rule.label = *colocate;
    if (colocate->empty()) table.fail("colocate", "needs a label");
  } else {
    rule.kind = RuleKind::kColocateWith;
    rule.label = *with;
    if (*with != "forward" && *with != "input")
      table.fail("colocate_with", "must be \"forward\" or \"input\"",
                 "colocates an op with the first forward op, or the first op, that it reads");
  }
  return Unit{};
}

Result<RuleSet> build(TomlDocument document, std::string_view where) {
  TomlTable root = document.root();
  if (const auto schema = root.text("schema"); schema && *schema != "emplace.rules/1")
    root.fail("schema", "is unknown", "expected \"emplace.rules/1\"");
  RuleSet set;
  // An incomplete rule usually has a misspelt key, so finish() reports unknown keys first.
  std::optional<Error> incomplete;
  for (TomlTable& table : root.tables("rule")) {
    Rule rule;
    rule.where = table.where();
    const Result<Unit> match = read_match(table, rule), action = read_action(table, rule);
    if (!incomplete && !match) incomplete = match.error();
    if (!incomplete && !action) incomplete = action.error();
    rule.optional = table.boolean("optional").value_or(false);
    set.rules.push_back(std::move(rule));
  }
  EMPLACE_TRY(document.finish());
  if (incomplete) return *std::move(incomplete);
  if (set.rules.empty()) return invalid(where, "has no [[rule]]", "docs/guide/rules.md shows some");
  return set;
}

}  // namespace

std::string Rule::described() const {
  constexpr std::string_view kActions[]{"pin", "allow", "forbid", "colocate", "colocate_with"};
  std::string values = devices.empty() ? "\"" + printable(label, 60) + "\"" : "";
  for (const std::string& device : devices)
    values.append(values.empty() ? "\"" : ", \"").append(printable(device, 60)).append("\"");
  if (kind == RuleKind::kAllow || kind == RuleKind::kForbid) values = "[" + values + "]";
  return where + " (" + std::string{kActions[static_cast<std::size_t>(kind)]} + " = " + values + ")";
}

Result<RuleSet> parse_rules(std::string_view toml, std::string_view where) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::parse(toml, where));
  return build(std::move(document), where);
}

Result<RuleSet> load_rules(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::load(path));
  return build(std::move(document), printable(path.filename().string()));
}

}  // namespace emplace
