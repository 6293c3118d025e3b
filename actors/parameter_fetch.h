#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "messages/learning.h"
#include "runtime/core/fetch.h"

namespace emplace::actors {

/// Fetches one version of the parameters from the learner, in pieces. The learner may answer with another
/// version than the one requested, if that one is gone or it has restarted. Pure; one thread.
class ParameterFetch {
 public:
  enum class Took : std::uint8_t {
    kNothing,    ///< A repeat, or nothing is being fetched.
    kMore,       ///< Request the next piece.
    kStartOver,  ///< Pieces are missing, or of another version.
    kAltered,    ///< All is there, and its checksum is wrong.
    kWhole,      ///< All is there: bytes(), version(), sha256().
  };
  explicit ParameterFetch(Nanos timeout)
      : fetch_{{.piece = messages::kParametersChunkBytes, .window = 1, .timeout = timeout}} {}

  /// `version` 0 and not `exact`: the newest.
  void start(std::uint64_t version, bool exact, Nanos now);
  bool active() const { return fetch_.active(); }
  /// What to send next, if anything.
  std::optional<messages::ParametersRequested> request(Nanos now);
  /// The same from a timer, after a silence.
  std::optional<messages::ParametersRequested> repeat(Nanos now);
  Took take(const messages::ParametersDelivered& delivered, std::span<const std::byte> piece, Nanos now);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t version() const { return fetch_.assembly().content(); }
  const std::string& sha256() const { return sha256_; }
  /// True if the version that came is the one that start() named.
  bool is_the_requested() const { return version() == requested_; }

 private:
  runtime::Fetch fetch_;
  std::uint64_t requested_ = 0;
  bool exact_ = false;
  messages::Bytes bytes_;
  std::string sha256_;
};

}  // namespace emplace::actors
