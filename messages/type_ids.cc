#include "messages/type_ids.h"

#include <string_view>

namespace emplace::messages {

const char* type_name(std::uint16_t type) {
  switch (Type{type}) {
#define EMPLACE_TYPE_NAME(name, number) \
  case Type::k##name:                   \
    return #name;
    EMPLACE_MESSAGES(EMPLACE_TYPE_NAME)
#undef EMPLACE_TYPE_NAME
  }
  return "unknown";
}

bool is_known(std::uint16_t type) { return std::string_view{type_name(type)} != "unknown"; }

}  // namespace emplace::messages
