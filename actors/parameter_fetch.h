#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "messages/learning.h"
#include "runtime/core/fetch.h"

namespace emplace::actors {

/// Fetches one version of the parameters from the learner in chunks. The learner may deliver another version
/// than requested, if that one is gone or the learner has restarted. Pure; one thread.
class ParameterFetch {
 public:
  enum class Took : std::uint8_t {
    kNothing,    ///< Repeat, or no transfer is active.
    kMore,       ///< Request the next chunk.
    kStartOver,  ///< Chunks are missing or belong to another version.
    kAltered,    ///< Complete, but the checksum is wrong.
    kWhole,      ///< Complete: use bytes(), version(), sha256().
  };
  explicit ParameterFetch(Nanos timeout)
      : fetch_{{.chunk = messages::kParametersChunkBytes, .window = 1, .timeout = timeout}} {}

  /// Starts a fetch. `version` 0 without `exact`: the newest.
  void start(std::uint64_t version, bool exact, Nanos now);
  bool active() const { return fetch_.active(); }
  /// Next request to send, if any.
  std::optional<messages::ParametersRequested> request(Nanos now);
  /// Same, from a timer: repeats the request after a timeout.
  std::optional<messages::ParametersRequested> repeat(Nanos now);
  Took take(const messages::ParametersDelivered& delivered, std::span<const std::byte> chunk, Nanos now);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t version() const { return fetch_.assembly().content(); }
  const std::string& sha256() const { return sha256_; }
  /// Whether the delivered version is the requested one.
  bool is_the_requested() const { return version() == requested_; }

 private:
  runtime::Fetch fetch_;
  std::uint64_t requested_ = 0;
  bool exact_ = false;
  messages::Bytes bytes_;
  std::string sha256_;
};

}  // namespace emplace::actors
