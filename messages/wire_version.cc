// Separate from envelope.cc: with this function in the same file, g++ 12 compiles decode_envelope() to code
// that is twice as slow.
#include <string>

#include "messages/envelope.h"

namespace emplace::messages {

Result<Unit> check_wire_version(std::uint8_t spoken, std::uint8_t oldest) {
  if (spoken >= kOldestWireVersion && oldest <= kWireVersion) return Unit{};
  return Error{Errc::kUnsupported,
               "node uses wire version " + std::to_string(spoken) + " and accepts " + std::to_string(oldest) +
                   " and later, head uses " + std::to_string(kWireVersion) + " and accepts " +
                   std::to_string(kOldestWireVersion) + " and later; use the same release on both"};
}

}  // namespace emplace::messages
