#pragma once
/// The one JSON object that a command prints with --json, built without the library's header (seconds per
/// file).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::launcher {

/// Keys keep their order. Numbers that are not finite become null; text that is not UTF-8 is mended. Thread:
/// one.
class JsonObject {
 public:
  JsonObject();
  ~JsonObject();
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject&&) noexcept;

  JsonObject& add(std::string_view key, std::string_view value);
  JsonObject& add(std::string_view key, const char* value) { return add(key, std::string_view{value}); }
  JsonObject& add(std::string_view key, double value);
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, std::uint64_t value);
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add_null(std::string_view key);
  JsonObject& add(std::string_view key, std::span<const double> values);
  JsonObject& add(std::string_view key, std::span<const std::int64_t> values);
  JsonObject& add(std::string_view key, std::span<const std::string> values);
  JsonObject& add(std::string_view key, JsonObject value);
  JsonObject& add(std::string_view key, std::vector<JsonObject> values);

  /// Two spaces per level.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace::launcher
