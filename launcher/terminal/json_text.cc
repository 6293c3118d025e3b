#include "launcher/terminal/json_text.h"

#include <nlohmann/json.hpp>

namespace emplace::launcher {

std::string json_text(const Json& value) {
  return value.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace emplace::launcher
