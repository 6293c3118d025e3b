#include "placement/machine/arithmetic_notes.h"

#include <fmt/core.h>

#include <algorithm>
#include <bitset>
#include <cctype>
#include <utility>

#include "placement/costs/kernel_model.h"

namespace emplace {
namespace {

std::string upper_name(Arithmetic arithmetic) {
  std::string name{word_of(arithmetic)};
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

}  // namespace

std::string arithmetic_note(const Profile& profile, Arithmetic wanted) {
  const Arithmetic used = arithmetic_on(profile.peaks_gflops, wanted);
  if (used == wanted || wanted == Arithmetic::kW4 || wanted == Arithmetic::kTf32) return {};
  return fmt::format("{0} has no {1} units: {1} products run as {2}", profile.name, upper_name(wanted),
                     upper_name(used));
}

std::vector<std::string> arithmetic_notes(const OpGraph& graph, const DeviceSet& devices) {
  const Float32Use float32 = float32_use(graph);
  std::vector<OpRole> roles;  // [types]
  for (std::size_t k = 0; k < graph.num_types(); ++k)
    roles.push_back(role_of_type(graph.type_name(TypeId{static_cast<std::uint16_t>(k)})));
  std::bitset<kNumArithmetics> wanted;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpRole& role = roles[index(graph.type(OpId{i}))];
    if (role.product) wanted.set(static_cast<std::size_t>(arithmetic_of(graph, OpId{i}, role, float32)));
  }
  std::vector<std::string> notes;
  for (const Device& device : devices.devices()) {
    for (std::size_t a = 0; a < kNumArithmetics && device.profile.has_tables(); ++a) {
      if (!wanted[a]) continue;
      std::string note = arithmetic_note(device.profile, static_cast<Arithmetic>(a));
      if (!note.empty() && std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  return notes;
}

}  // namespace emplace
