#pragma once
/// JSON output: of commands with --json, and of objects in files and records.

#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/fields.h"

namespace emplace::launcher {

/// Keys keep the order in which they were added.
using Json = nlohmann::ordered_json;

/// A number that is unknown: json_text() writes null.
inline constexpr double kJsonNull = std::numeric_limits<double>::quiet_NaN();
/// Returns `text`, null if it is empty.
Json text_or_null(const std::string& text);

/// Returns an object with the fields of a struct; an optional without a value is null.
template <HasFields Struct, class Object = Json>
Object fields_json(const Struct& value) {
  Object object = Object::object();
  value.visit_fields([&](const char* name, const auto& field) {
    if constexpr (requires { field.has_value(); })
      object[name] = field ? Object(*field) : Object(nullptr);
    else
      object[name] = field;
  });
  return object;
}

/// Formats JSON with two spaces per level. Numbers that are not finite become null; invalid UTF-8 is replaced
/// by U+FFFD. Pure; any thread.
std::string json_text(const Json& value);

}  // namespace emplace::launcher
