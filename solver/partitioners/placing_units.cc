#include "solver/partitioners/placing_units.h"

#include <algorithm>

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
  // A class belongs to the group of its lowest op, whatever the groups of its other ops.
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

namespace {

/// Calls visit(owner, bytes, first, last) for each tensor made during the step: alive from kernel `first` to
/// kernel `last`, in issue order; last < first if nothing reads it.
template <class Visit>
void visit_results(const LoweredGraph& lowered, Visit visit) {
  const std::span<const OpId> kernels = lowered.kernels();
  std::vector<std::size_t> place(lowered.num_ops(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) place[index(kernels[k])] = k;
  std::vector<std::size_t> last(lowered.num_buffers(), 0);
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    std::size_t& end = last[index(lowered.base(BufferId{b}))];
    for (const OpId reader : lowered.readers(BufferId{b})) end = std::max(end, place[index(reader)]);
  }
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    const std::int64_t bytes = lowered.held_bytes(buffer);
    if (bytes == 0 || lowered.is_resident(buffer) || lowered.base(buffer) != buffer) continue;
    const std::size_t begin = place[index(lowered.owner(buffer))];
    visit(lowered.owner(buffer), bytes, begin, last[b]);
  }
}

/// `moments` [kMoments]: kernels, in ascending order. `unread`: count what nothing reads, while it is made.
void find_bytes_at(PlacingUnits& units, const LoweredGraph& lowered, std::span<const std::size_t> moments,
                   bool unread) {
  constexpr std::size_t kMoments = PlacingUnits::kMoments;
  units.live_bytes.assign(units.size() * kMoments, 0);
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    std::fill_n(units.live_bytes.begin() + static_cast<std::ptrdiff_t>(unit * kMoments), kMoments,
                units.state_bytes[unit]);
  visit_results(lowered, [&](OpId owner, std::int64_t bytes, std::size_t begin, std::size_t last) {
    std::int64_t* live = &units.live_bytes[units.unit_of_op[index(owner)] * kMoments];
    const std::size_t end = unread ? std::max(begin, last) : last;
    const auto first = std::lower_bound(moments.begin(), moments.end(), begin);
    for (auto at = first; at != moments.end() && *at <= end; ++at) live[at - moments.begin()] += bytes;
  });
}

}  // namespace

void find_live_bytes(PlacingUnits& units, const LoweredGraph& lowered) {
  constexpr std::size_t kMoments = PlacingUnits::kMoments;
  std::vector<std::size_t> moments;
  // Moment m is after m + 1 of kMoments + 1 equal parts of the kernels.
  for (std::size_t m = 0; m < kMoments; ++m)
    moments.push_back((m + 1) * lowered.kernels().size() / (kMoments + 1));
  find_bytes_at(units, lowered, moments, false);
}

void find_peak_bytes(PlacingUnits& units, const LoweredGraph& lowered) {
  constexpr std::size_t kMoments = PlacingUnits::kMoments;
  const std::size_t kernels = lowered.kernels().size();
  std::vector<std::int64_t> alive(kernels + 1, 0);
  visit_results(lowered, [&](OpId, std::int64_t bytes, std::size_t begin, std::size_t last) {
    alive[begin] += bytes;
    alive[std::max(begin, last) + 1] -= bytes;
  });
  for (std::size_t k = 1; k < kernels; ++k) alive[k] += alive[k - 1];
  std::vector<std::size_t> moments;
  for (std::size_t m = 0; m < kMoments; ++m) {
    const std::size_t first = m * kernels / kMoments, end = std::max(first + 1, (m + 1) * kernels / kMoments);
    const auto begin = alive.begin() + static_cast<std::ptrdiff_t>(first);
    moments.push_back(first +
                      static_cast<std::size_t>(
                          std::max_element(begin, begin + static_cast<std::ptrdiff_t>(end - first)) - begin));
  }
  find_bytes_at(units, lowered, moments, true);
}

std::vector<PlacingUnits> placing_granularities(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<PlacingUnits> all{class_units(problem, lowered)};
  for (const bool share_time_steps : {false, true}) {
    PlacingUnits units =
        group_units(problem, lowered, scope_groups(problem.graph, {.share_time_steps = share_time_steps}));
    if (units.size() == all.back().size()) continue;
    find_live_bytes(units, lowered);
    all.push_back(std::move(units));
  }
  return all;
}

PlacingUnits units_with_state(const PlacingUnits& units, const LoweredGraph& lowered) {
  std::vector<bool> has_kernel(units.size());
  for (const OpId op : lowered.kernels()) has_kernel[units.unit_of_op[index(op)]] = true;
  std::vector<std::uint32_t> reader(units.size(), kNoIndex);
  for (const OpId op : lowered.kernels()) {
    const std::uint32_t own = units.unit_of_op[index(op)];
    for (const BufferId buffer : lowered.reads(op)) {
      const std::uint32_t state = units.unit_of_op[index(lowered.owner(buffer))];
      if (!has_kernel[state] && reader[state] == kNoIndex) reader[state] = own;
    }
  }
  PlacingUnits joined;
  std::vector<std::uint32_t> number(units.size(), kNoIndex);
  std::vector<DeviceMask> allowed = units.allowed;
  for (std::uint32_t unit = 0; unit < units.size(); ++unit) {
    if (reader[unit] == kNoIndex) continue;
    if ((allowed[reader[unit]] & allowed[unit]).any()) {
      allowed[reader[unit]] &= allowed[unit];
    } else {
      reader[unit] = kNoIndex;
    }
  }
  for (std::uint32_t unit = 0; unit < units.size(); ++unit) {
    if (reader[unit] != kNoIndex) continue;
    number[unit] = static_cast<std::uint32_t>(joined.allowed.size());
    joined.allowed.push_back(allowed[unit]);
    joined.state_bytes.push_back(units.state_bytes[unit]);
  }
  for (std::uint32_t unit = 0; unit < units.size(); ++unit) {
    if (reader[unit] == kNoIndex) continue;
    number[unit] = number[reader[unit]];
    joined.state_bytes[number[unit]] += units.state_bytes[unit];
  }
  for (const std::uint32_t unit : units.unit_of_op) joined.unit_of_op.push_back(number[unit]);
  find_peak_bytes(joined, lowered);
  return joined;
}

}  // namespace emplace
