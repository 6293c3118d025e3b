#include "executor/kernel/attributes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace emplace {

using nlohmann::json;

Error unsupported(const Signature& signature, std::string_view what) {
  return Error{Errc::kUnsupported, signature.type + ": " + std::string{what}};
}

Error unsupported(const Signature& signature, DType dtype) {
  return unsupported(signature, "no kernel for " + std::string{dtype_name(dtype)});
}

Attributes::Attributes(const Signature& signature) : signature_{signature} {
  json parsed = json::parse(signature.attrs_json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    fault_ = unsupported(signature, "attributes are not a JSON object");
    parsed = json::object();
  }
  json_ = std::make_shared<const json>(std::move(parsed));
}

const json* Attributes::find(std::string_view name) const {
  const auto it = json_->find(std::string{name});
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

bool Attributes::has(std::string_view name) const { return find(name) != nullptr; }

void Attributes::refuse(std::string_view name, std::string_view wanted) {
  if (fault_) return;
  fault_ = unsupported(signature_, std::string{"attribute "}.append(name).append(" is not ").append(wanted));
}

std::int64_t Attributes::integer(std::string_view name, std::int64_t fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number_integer()) return value->get<std::int64_t>();
  return refuse(name, "an integer"), fallback;
}

double Attributes::number(std::string_view name, double fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number()) return value->get<double>();
  return refuse(name, "a number"), fallback;
}

bool Attributes::flag(std::string_view name, bool fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number_integer()) return value->get<std::int64_t>() != 0;
  return refuse(name, "true or false"), fallback;
}

std::string Attributes::word(std::string_view name, std::string_view fallback) {
  const json* value = find(name);
  if (value == nullptr) return std::string{fallback};
  if (value->is_string()) return value->get<std::string>();
  return refuse(name, "a string"), std::string{fallback};
}

std::vector<std::int64_t> Attributes::integers(std::string_view name, std::vector<std::int64_t> fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number_integer()) return {value->get<std::int64_t>()};
  const auto integral = [](const json& item) { return item.is_number_integer(); };
  if (value->is_array() && std::ranges::all_of(*value, integral)) {
    return value->get<std::vector<std::int64_t>>();
  }
  return refuse(name, "a list of integers"), fallback;
}

std::vector<bool> Attributes::flags(std::string_view name, std::vector<bool> fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  const auto boolean = [](const json& item) { return item.is_boolean(); };
  if (value->is_array() && std::ranges::all_of(*value, boolean)) return value->get<std::vector<bool>>();
  return refuse(name, "a list of true and false"), fallback;
}

}  // namespace emplace
