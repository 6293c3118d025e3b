#include "policy/loss/outlier.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace emplace::policy {
namespace {

constexpr std::size_t kRemembered = 100;
constexpr std::size_t kEnough = 20;

/// Median; the mean of the two middle values if their number is even.
double median(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

bool OutlierFilter::is_outlier(double cost) const {
  if (factor_ <= 0 || last_.size() < kEnough) return false;
  std::vector<double> values(last_.begin(), last_.end());
  const double middle = median(values);
  for (double& value : values) value = std::abs(value - middle);
  const double deviation = median(values);
  return deviation > 0 && cost > middle + factor_ * deviation;
}

void OutlierFilter::learn(double cost) {
  if (factor_ <= 0) return;
  last_.push_back(cost);
  if (last_.size() > kRemembered) last_.pop_front();
}

}  // namespace emplace::policy
