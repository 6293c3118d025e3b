#include <array>
#include <tuple>

#include "messages/all.h"
#include "runtime/frame.h"
#include "runtime/zmq/links/session_messages.h"
#include "tests/fuzz/targets.h"

namespace emplace::fuzz {
namespace {

using SessionMessages =
    std::tuple<runtime::Hello, runtime::Welcome, runtime::Beat, runtime::Bye, runtime::ByeAck>;

/// An accepted message is encoded, accepted again, and then unchanged.
template <class M>
void read_as(std::uint16_t type, Input body) {
  if (M::kType != type) return;
  const auto once = messages::decode_body<M>(body);
  if (!once) return;
  const messages::Bytes written = messages::encode_body(*once);
  const auto twice = messages::decode_body<M>(written);
  EMPLACE_CHECK(twice.ok() && messages::encode_body(*twice) == written,
                "a message changes when it is sent on");
}

template <class... Ms>
void read_as_any(std::uint16_t type, Input body, const std::tuple<Ms...>*) {
  (read_as<Ms>(type, body), ...);
}

void check_envelope(const messages::Envelope& envelope) {
  std::array<std::byte, messages::kMaxEnvelopeBytes> out;
  const std::size_t size = messages::encode_envelope(envelope, out.data());
  EMPLACE_CHECK(size <= out.size(), "an envelope outgrows its room");
  const auto again = messages::decode_envelope({out.data(), size});
  EMPLACE_CHECK(again.ok() && *again == envelope, "an envelope changes when it is sent on");
}

}  // namespace

void frame(Input bytes) {
  if (const auto envelope = messages::decode_envelope(bytes)) check_envelope(*envelope);
  runtime::Record record;
  for (Input batch = bytes; !batch.empty();) {
    const std::size_t left = batch.size();
    if (!runtime::take_record(batch, record)) break;
    EMPLACE_CHECK(batch.size() < left, "a record of nothing");
    EMPLACE_CHECK(record.body.size() + record.bulk.size() <= left, "a record larger than its frame");
    check_envelope(record.envelope);
  }
}

void message(Input bytes) {
  if (bytes.empty()) return;
  const auto first = static_cast<std::uint16_t>(bytes[0]);
  const auto type =
      static_cast<std::uint16_t>(first >= 0xf0 ? messages::kFirstRuntimeType + (first - 0xf0) : first);
  read_as_any(type, bytes.subspan(1), static_cast<const messages::AllMessages*>(nullptr));
  read_as_any(type, bytes.subspan(1), static_cast<const SessionMessages*>(nullptr));
}

}  // namespace emplace::fuzz
