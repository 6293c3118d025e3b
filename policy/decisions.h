#pragma once
/// What placers write into `Actions`: the devices chosen, and what the drawing policy thought of every device
/// where the objective asks for it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Placements that one episode may hold, so that foreign bytes cannot ask for any amount of memory.
inline constexpr std::size_t kMaxPlacements = 1024;

/// The choices of one episode: k placements of T choices each, choice n = placement · T + stage.
struct Decisions {
  std::vector<std::uint8_t> devices;  ///< [k · T]
  /// [D, k · T] column-major: log q of every device when the choice was drawn, -1e30 where forbidden; empty
  /// unless ObjectiveOptions::needs_behaviour().
  std::vector<float> log_q;
};

/// What a reader knows of them.
struct DecisionShape {
  std::size_t stages = 0;   ///< T
  std::size_t devices = 0;  ///< D
  bool behaviour = false;   ///< log q must be there.
};

/// [u32 choices][u32 D, or 0 without log q][u8 devices …][f32 log q …], little-endian, at the end of `bytes`.
void append_decisions(const Decisions& decisions, Bytes& bytes);

/// Reads all of `bytes`, which may come from anyone. Errors (kInvalid): no whole number of placements or
/// too many, a device out of range, log q missing, not a log-probability, or of a device that nobody would
/// have drawn.
Result<Decisions> read_decisions(std::span<const std::byte> bytes, const DecisionShape& shape);

/// log q as Decisions keeps it, from a decoder's log_p [D, k · T].
std::vector<float> behaviour_of(const Matrix& log_p);

/// log q as Decisions keeps it where no more is known than that of whole placements, `log_q` [k]: spread
/// evenly over what was chosen, `devices` [k · T] of `num_devices`. Nothing is said of the other devices
/// (-1e30): it serves where only a placement's total counts.   [IS-1]
std::vector<float> even_behaviour(std::span<const std::uint8_t> devices, std::size_t num_devices,
                                  std::span<const double> log_q);

}  // namespace emplace::policy
