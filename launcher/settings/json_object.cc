#include "launcher/settings/json_object.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace emplace::launcher {

struct JsonObject::State {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  JsonObject& put(JsonObject& self, std::string_view key, nlohmann::ordered_json value) {
    object[std::string{key}] = std::move(value);
    return self;
  }
  template <class T>
  static nlohmann::ordered_json list(std::span<const T> values) {
    auto array = nlohmann::ordered_json::array();
    for (const T& value : values) array.push_back(value);
    return array;
  }
};

JsonObject::JsonObject() : state_{std::make_unique<State>()} {}
JsonObject::~JsonObject() = default;
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  return state_->put(*this, key, value);
}
JsonObject& JsonObject::add(std::string_view key, double value) { return state_->put(*this, key, value); }
JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return state_->put(*this, key, value);
}
JsonObject& JsonObject::add(std::string_view key, std::uint64_t value) {
  return state_->put(*this, key, value);
}
JsonObject& JsonObject::add(std::string_view key, bool value) { return state_->put(*this, key, value); }
JsonObject& JsonObject::add_null(std::string_view key) { return state_->put(*this, key, nullptr); }
JsonObject& JsonObject::add(std::string_view key, std::span<const double> values) {
  return state_->put(*this, key, State::list(values));
}
JsonObject& JsonObject::add(std::string_view key, std::span<const std::int64_t> values) {
  return state_->put(*this, key, State::list(values));
}
JsonObject& JsonObject::add(std::string_view key, std::span<const std::string> values) {
  return state_->put(*this, key, State::list(values));
}
JsonObject& JsonObject::add(std::string_view key, JsonObject value) {
  return state_->put(*this, key, std::move(value.state_->object));
}
JsonObject& JsonObject::add(std::string_view key, std::vector<JsonObject> values) {
  auto array = nlohmann::ordered_json::array();
  for (JsonObject& value : values) array.push_back(std::move(value.state_->object));
  return state_->put(*this, key, std::move(array));
}

std::string JsonObject::text() const {
  return state_->object.dump(2, ' ', /*ensure_ascii=*/false,
                             nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace emplace::launcher
