#pragma once
/// Contents of `Actions`: the chosen devices and, if the loss needs it, the distribution of the
/// behaviour policy.

#include <cstdint>
#include <span>
#include <vector>

#include "policy/bytes.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Maximum number of placements per episode; bounds the memory that untrusted bytes can request.
inline constexpr std::size_t kMaxPlacements = 1024;

/// The choices of one episode: k placements of T choices each, choice n = placement · T + stage.
struct Decisions {
  std::vector<std::uint8_t> devices;  ///< [k · T]
  /// [D, k · T] column-major: log q of every device when the choice was drawn, -1e30 where forbidden; empty
  /// unless LossOptions::needs_behaviour().
  std::vector<float> log_q;
};

/// Shape that read_decisions() expects.
struct DecisionShape {
  std::size_t stages = 0;   ///< T
  std::size_t devices = 0;  ///< D
  bool behaviour = false;   ///< Whether log q is required.
};

/// Appends to `bytes`: [u32 choices][u32 D, or 0 without log q][u8 devices …][f32 log q …], little-endian.
void append_decisions(const Decisions& decisions, Bytes& bytes);

/// Parses all of `bytes`, which are untrusted. Errors (kInvalid): not a whole number of placements, too many
/// placements, a device out of range, log q missing or not a log-probability, or a chosen device whose
/// probability is practically 0.
Result<Decisions> read_decisions(std::span<const std::byte> bytes, const DecisionShape& shape);

/// Appends the number of the graph that an episode places: [u32 graph], little-endian. It precedes the
/// decisions of policies that place any graph.
void append_graph(std::size_t graph, Bytes& bytes);

/// Removes that number from the front of `bytes`, which are untrusted. Errors (kInvalid): it is missing or
/// not below `graphs`.
Result<std::size_t> take_graph(std::span<const std::byte>& bytes, std::size_t graphs);
/// Returns the number that append_graph() wrote; 0 if it is missing or not below `graphs`.
std::size_t graph_or_first(std::span<const std::byte> bytes, std::size_t graphs);

/// Builds Decisions::log_q when only the log-probability of whole placements is known.
///   devices [k · T], each below `num_devices`;   log_q [k] per placement
/// A placement's log q is split evenly among its choices; the devices not chosen get -1e30. The result is
/// only valid where the total per placement matters.   [IS-1]
std::vector<float> even_behaviour(std::span<const std::uint8_t> devices, std::size_t num_devices,
                                  std::span<const double> log_q);

}  // namespace emplace::policy
