#include "launcher/terminal/json_text.h"

#include <nlohmann/json.hpp>

namespace emplace::launcher {

std::string json_text(const Json& value) {
  return value.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace emplace::launcher
