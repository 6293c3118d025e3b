// Apart from envelope.cc: beside this text g++ 12 compiles decode_envelope() to code that is twice as slow.
#include <string>

#include "messages/envelope.h"

namespace emplace::messages {

Result<Unit> check_wire_version(std::uint8_t spoken, std::uint8_t oldest) {
  if (spoken >= kOldestWireVersion && oldest <= kWireVersion) return Unit{};
  return Error{Errc::kUnsupported, "it speaks wire version " + std::to_string(spoken) + " and understands " +
                                       std::to_string(oldest) + " and later, the head speaks " +
                                       std::to_string(kWireVersion) + " and understands " +
                                       std::to_string(kOldestWireVersion) +
                                       " and later; use the same release on both"};
}

}  // namespace emplace::messages
