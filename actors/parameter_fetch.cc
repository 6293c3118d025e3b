#include "actors/parameter_fetch.h"

#include "base/hash.h"

namespace emplace::actors {

void ParameterFetch::start(std::uint64_t version, bool exact, Nanos now) {
  requested_ = version;
  exact_ = exact;
  bytes_.clear();
  fetch_.start(now);
}

std::optional<messages::ParametersRequested> ParameterFetch::request(Nanos now) {
  const auto offset = fetch_.request(now);
  if (!offset) return std::nullopt;
  if (*offset == 0) return messages::ParametersRequested{requested_, 0, exact_};
  return messages::ParametersRequested{version(), *offset, true};
}

std::optional<messages::ParametersRequested> ParameterFetch::repeat(Nanos now) {
  return fetch_.timed_out(now) ? request(now) : std::nullopt;
}

ParameterFetch::Took ParameterFetch::take(const messages::ParametersDelivered& delivered,
                                          std::span<const std::byte> chunk, Nanos now) {
  using runtime::Assembly;
  if (!active()) return Took::kNothing;
  switch (fetch_.take(delivered.version, {delivered.offset, chunk.size()}, delivered.total, now)) {
    case Assembly::Took::kRepeat:
      return Took::kNothing;
    case Assembly::Took::kGap:
      return Took::kStartOver;
    case Assembly::Took::kFirst:
      bytes_.clear();
      break;
    case Assembly::Took::kNext:
      break;
  }
  bytes_.insert(bytes_.end(), chunk.begin(), chunk.end());
  if (!fetch_.assembly().whole()) return Took::kMore;
  sha256_ = delivered.sha256;
  return hash64(bytes_) == delivered.checksum ? Took::kWhole : Took::kAltered;
}

}  // namespace emplace::actors
