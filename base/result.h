#pragma once
/// Errors as values: a failure that the environment can cause is an Error, a bug fails EMPLACE_CHECK.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace emplace {

/// Why an operation failed. Values are part of the wire format: append only.
enum class Errc : std::uint8_t {
  kInvalid = 1,      ///< Wrong usage or bad input; exit status 2.
  kOutOfMemory = 2,  ///< A placement does not fit into memory; exit status 3 if no placement fits.
  kDeadline = 3,     ///< A timeout expired.
  kPeerLost = 4,     ///< The peer is gone.
  kIo = 5,           ///< A file, database or socket operation failed; exit status 2 when the user named it.
  kNoPlacement = 6,  ///< No valid placement exists or was found; exit status 3.
  kRunFailed = 7,    ///< A run failed with an error of its own; exit status 4.
  kUnsupported = 8,  ///< Known but not supported here: an op, a version, an optional part.
  kDeviceLost = 9,   ///< A device is unusable until its executor's process restarts.
};

/// One failure. `context` contains where, what and the cure: "conv3: 1.2 GB left on gpu:1; allow a CPU".
struct Error {
  Errc code = Errc::kInvalid;
  std::string context;
};

/// An empty value: Result<Unit> is the result of a call that only reports success or failure.
struct Unit {};

/// A `T` or an error. Thread: a plain value; share it as you would a `T`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_{std::in_place_index<0>, std::move(value)} {}
  Result(Error error) : state_{std::in_place_index<1>, std::move(error)} {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// @pre ok(); otherwise aborts with the error's text.
  const T& value() const& { return require(), *std::get_if<0>(&state_); }
  T& value() & { return require(), *std::get_if<0>(&state_); }
  /// Returned by value: in a loop over `*call()` a reference would dangle.
  T value() && { return require(), std::move(*std::get_if<0>(&state_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  /// @pre !ok().
  const Error& error() const {
    EMPLACE_CHECK(!ok(), "error() of a success");
    return *std::get_if<1>(&state_);
  }

 private:
  void require() const {
    if (!ok()) EMPLACE_CHECK(false, std::get_if<1>(&state_)->context);
  }
  std::variant<T, Error> state_;
};

/// The usual error, formatted as `where: what; cure` (the cure may be empty).
inline Error invalid(std::string_view where, std::string_view what, std::string_view cure = {}) {
  std::string text{where};
  if (!text.empty()) text += ": ";
  text += what;
  if (!cure.empty()) text.append("; ").append(cure);
  return Error{Errc::kInvalid, std::move(text)};
}

}  // namespace emplace

/// EMPLACE_TRY(call): returns the error of a Result from the enclosing function, or continues and drops the
/// value. It is one statement, so it may be the body of an `if`. The enclosing function returns a Result of
/// any type; a lambda must declare it (`-> Result<Unit>`).
///   EMPLACE_TRY(group.check(ids));
#define EMPLACE_TRY(...) EMPLACE_TRY_(EMPLACE_TRY_NAME_(emplace_outcome_, __COUNTER__), __VA_ARGS__)

/// EMPLACE_TRY_ASSIGN(declaration, call): as EMPLACE_TRY, and moves the value into the declaration (or
/// assigns it to an existing variable). It is more than one statement; as the body of an `if` without braces
/// it does not compile.
///   EMPLACE_TRY_ASSIGN(const OpGraph graph, read_graph(path));
#define EMPLACE_TRY_ASSIGN(declaration, ...) \
  EMPLACE_TRY_ASSIGN_(EMPLACE_TRY_NAME_(emplace_outcome_, __COUNTER__), declaration, __VA_ARGS__)

// Each use gets a unique name, even within the argument of another use on the same line (such as a lambda).
#define EMPLACE_TRY_JOIN_(a, b) a##b
#define EMPLACE_TRY_NAME_(a, b) EMPLACE_TRY_JOIN_(a, b)
#define EMPLACE_TRY_(outcome, ...)                                      \
  do {                                                                  \
    if (auto outcome = (__VA_ARGS__); !outcome) return outcome.error(); \
  } while (false)
#define EMPLACE_TRY_ASSIGN_(outcome, declaration, ...) \
  auto outcome = (__VA_ARGS__);                        \
  if (!outcome) return outcome.error();                \
  declaration = *std::move(outcome)
