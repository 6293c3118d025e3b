#include "policy/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"
#include "policy/bytes.h"

namespace emplace::policy {
namespace {

std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = splitmix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

ParameterId ParameterStore::add(std::string name, Eigen::Index rows, Eigen::Index cols, Init init,
                                std::uint64_t seed, float learning_scale) {
  for (const Entry& entry : entries_) EMPLACE_CHECK(entry.name != name, name);
  const std::size_t begin = values_.size();
  values_.resize(begin + static_cast<std::size_t>(rows * cols), 0.0f);
  gradients_.resize(values_.size(), 0.0f);
  if (init == Init::kGlorot) {
    Rng rng{seed, Purpose::kInit, name_hash(name)};
    const float reach = std::sqrt(6.0f / static_cast<float>(rows + cols));
    for (std::size_t i = begin; i < values_.size(); ++i) values_[i] = reach * (2 * rng.uniform() - 1);
  }
  entries_.push_back({std::move(name), rows, cols, begin, learning_scale});
  return ParameterId{static_cast<std::uint32_t>(entries_.size() - 1)};
}

MatrixMap ParameterStore::value(ParameterId id) {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return {values_.data() + entry.begin, entry.rows, entry.cols};
}
ConstMatrixMap ParameterStore::value(ParameterId id) const {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return {values_.data() + entry.begin, entry.rows, entry.cols};
}
MatrixMap ParameterStore::gradient(ParameterId id) {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return {gradients_.data() + entry.begin, entry.rows, entry.cols};
}

void ParameterStore::clear_gradients() { std::fill(gradients_.begin(), gradients_.end(), 0.0f); }

std::vector<std::pair<std::size_t, float>> ParameterStore::learning_scales() const {
  std::vector<std::pair<std::size_t, float>> scales;
  for (const Entry& entry : entries_) {
    scales.emplace_back(entry.begin + static_cast<std::size_t>(entry.rows * entry.cols),
                        entry.learning_scale);
  }
  return scales;
}

Result<Unit> ParameterStore::load(std::span<const std::byte> bytes) {
  if (bytes.size() != values_.size() * sizeof(float)) {
    return invalid("parameters",
                   std::to_string(bytes.size()) + " bytes; this policy needs " +
                       std::to_string(values_.size() * sizeof(float)),
                   "use the configuration that they were saved with");
  }
  if (!bytes.empty()) std::memcpy(values_.data(), bytes.data(), bytes.size());
  return Unit{};
}

std::string ParameterStore::sha256() const {
  std::vector<std::size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return entries_[a].name < entries_[b].name; });
  Bytes text;
  for (const std::size_t i : order) {
    const Entry& entry = entries_[i];
    const std::int64_t shape[2] = {entry.rows, entry.cols};
    append_values(std::span{entry.name.c_str(), entry.name.size() + 1}, text);
    append_values(shape, text);
    append_values(std::span{values_}.subspan(entry.begin, static_cast<std::size_t>(entry.rows * entry.cols)),
                  text);
  }
  return sha256_hex(text);
}

}  // namespace emplace::policy
