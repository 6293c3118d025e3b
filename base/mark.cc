#include "base/mark.h"

namespace emplace {
namespace {

std::atomic<Mark*> newest{nullptr};

}  // namespace

void reach(Mark& mark) {
  if (mark.reached.exchange(true)) return;
  mark.next = newest.load();
  while (!newest.compare_exchange_weak(mark.next, &mark)) {
  }
}

std::set<std::string> reached_marks() {
  std::set<std::string> names;
  for (const Mark* mark = newest.load(); mark != nullptr; mark = mark->next) names.insert(mark->name);
  return names;
}

}  // namespace emplace
