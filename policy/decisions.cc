#include "policy/decisions.h"

#include <algorithm>

namespace emplace::policy {
namespace {

struct Header {
  std::uint32_t choices = 0, rows = 0;
};

/// 24-bit uniform numbers draw nothing below e^-17, and noise reaches little further. Smaller claimed
/// probabilities would make the importance ratio infinite.
constexpr float kLeastDrawn = -60;

}  // namespace

void append_decisions(const Decisions& decisions, Bytes& bytes) {
  const std::size_t choices = decisions.devices.size(), floats = decisions.log_q.size();
  const Header header{static_cast<std::uint32_t>(choices),
                      static_cast<std::uint32_t>(choices == 0 ? 0 : floats / choices)};
  append_values(std::span{&header, 1}, bytes);
  append_values(decisions.devices, bytes);
  append_values(decisions.log_q, bytes);
}

Result<Decisions> read_decisions(std::span<const std::byte> bytes, const DecisionShape& shape) {
  const auto foreign = [](const char* why) { return invalid("actions", why); };
  Header header;
  EMPLACE_TRY(take_values(bytes, std::span{&header, 1}));
  const std::size_t choices = header.choices, floats = choices * std::size_t{header.rows};
  if (choices == 0 || shape.stages == 0 || choices % shape.stages != 0)
    return foreign("wrong number of choices for the groups of this policy");
  if (choices / shape.stages > kMaxPlacements) return foreign("more placements than an episode may hold");
  if (header.rows != 0 && header.rows != shape.devices) return foreign("wrong number of devices");
  if (bytes.size() != choices + floats * sizeof(float)) return foreign("wrong length");
  if (shape.behaviour && floats == 0)
    return foreign("behaviour probabilities are missing: they were drawn for another loss");
  Decisions decisions;
  decisions.devices.resize(choices);
  EMPLACE_TRY(take_values(bytes, decisions.devices));
  for (const std::uint8_t device : decisions.devices) {
    if (device >= shape.devices) return foreign("device out of range");
  }
  if (!shape.behaviour) return decisions;
  decisions.log_q.resize(floats);
  EMPLACE_TRY(take_values(bytes, decisions.log_q));
  // The comparison also rejects NaN.
  const bool probabilities = std::all_of(decisions.log_q.begin(), decisions.log_q.end(),
                                         [](float log_q) { return log_q >= -1e30f && log_q <= 1e-3f; });
  if (!probabilities) return foreign("invalid log-probability");
  for (std::size_t n = 0; n < choices; ++n) {
    if (decisions.log_q[n * shape.devices + decisions.devices[n]] < kLeastDrawn)
      return foreign("chosen device has a probability of almost 0");
  }
  return decisions;
}

std::vector<float> even_behaviour(std::span<const std::uint8_t> devices, std::size_t num_devices,
                                  std::span<const double> log_q) {
  std::vector<float> behaviour(devices.size() * num_devices, -1e30f);
  const std::size_t stages = log_q.empty() ? 0 : devices.size() / log_q.size();
  for (std::size_t n = 0; n < devices.size(); ++n)
    behaviour[n * num_devices + devices[n]] =
        static_cast<float>(log_q[n / stages] / static_cast<double>(stages));
  return behaviour;
}

void append_graph(std::size_t graph, Bytes& bytes) {
  const auto number = static_cast<std::uint32_t>(graph);
  append_values(std::span{&number, 1}, bytes);
}

Result<std::size_t> take_graph(std::span<const std::byte>& bytes, std::size_t graphs) {
  std::uint32_t number = 0;
  EMPLACE_TRY(take_values(bytes, std::span{&number, 1}));
  if (number >= graphs) return invalid("actions", "graph number out of range");
  return std::size_t{number};
}

std::size_t graph_or_first(std::span<const std::byte> bytes, std::size_t graphs) {
  const auto graph = take_graph(bytes, graphs);
  return graph ? *graph : 0;
}

}  // namespace emplace::policy
