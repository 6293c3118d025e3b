#include "heuristics/placing_units.h"

namespace emplace {

PlacingUnits class_units(const Problem& problem, const LoweredGraph& lowered) {
  PlacingUnits units;
  const auto classes = problem.constraints.classes();
  units.unit_of_op.assign(classes.begin(), classes.end());
  for (std::uint32_t c = 0; c < problem.constraints.num_classes(); ++c)
    units.allowed.push_back(problem.constraints.allowed(c));
  units.state_bytes.assign(units.allowed.size(), 0);
  for (std::uint32_t i = 0; i < classes.size(); ++i)
    units.state_bytes[classes[i]] += lowered.resident_bytes(OpId{i});
  return units;
}

PlacingUnits group_units(const Problem& problem, const LoweredGraph& lowered, const Grouping& groups) {
  const Constraints& constraints = problem.constraints;
  std::vector<DeviceMask> common(groups.num_groups, DeviceMask{}.set());
  for (std::uint32_t i = 0; i < groups.group_of_op.size(); ++i)
    common[groups.group_of_op[i]] &= constraints.allowed(constraints.class_of(OpId{i}));
  // A class goes where its lowest op goes, whatever the groups say.
  std::vector<std::uint32_t> unit_of_class(constraints.num_classes());
  std::vector<std::int64_t> unit_of_group(groups.num_groups, -1);
  PlacingUnits units;
  const auto leaders = class_leaders(constraints);
  for (std::uint32_t c = 0; c < leaders.size(); ++c) {
    const std::uint32_t group = groups.group_of_op[index(leaders[c])];
    const bool agreed = common[group].any();
    if (!agreed || unit_of_group[group] < 0) {
      unit_of_group[group] = static_cast<std::int64_t>(units.allowed.size());
      units.allowed.push_back(agreed ? common[group] : constraints.allowed(c));
    }
    unit_of_class[c] = static_cast<std::uint32_t>(unit_of_group[group]);
    units.allowed[unit_of_class[c]] &= constraints.allowed(c);
  }
  units.state_bytes.assign(units.allowed.size(), 0);
  for (std::uint32_t i = 0; i < groups.group_of_op.size(); ++i) {
    units.unit_of_op.push_back(unit_of_class[constraints.class_of(OpId{i})]);
    units.state_bytes[units.unit_of_op.back()] += lowered.resident_bytes(OpId{i});
  }
  return units;
}

}  // namespace emplace
