#pragma once
/// TOML, read strictly: every error says file and line, every key must be known, every size carries its unit.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

class TomlTable;

/// A parsed file and the first thing that was wrong in it. Thread: one owner.
class TomlDocument {
 public:
  /// Errors: kIo; kInvalid with line and column if it is not TOML.
  static Result<TomlDocument> load(const std::filesystem::path& path);
  static Result<TomlDocument> parse(std::string_view text, std::string_view where);

  TomlTable root();
  /// Moves a value to another place before anything is read; it keeps its line: "policy.hidden" to
  /// "policy.placeto.hidden". An empty `to` drops it. Returns false if there is none. Errors (kInvalid): both
  /// are there, or one of the tables of `to` is no table.
  Result<bool> move(std::string_view from, std::string_view to);
  /// The first error of any getter, or an unknown key of a table that was asked for keys (with the nearest
  /// known one).
  Result<Unit> finish();

 private:
  friend class TomlTable;
  struct State;
  std::shared_ptr<State> state_;
};

/// One table. A getter returns nothing if the key is absent, or if it is of the wrong kind, which finish()
/// reports.
class TomlTable {
 public:
  std::optional<std::string> text(std::string_view key);
  std::optional<double> number(std::string_view key);  ///< Whole numbers too.
  std::optional<std::int64_t> integer(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  std::optional<std::int64_t> bytes(std::string_view key);  ///< "12GiB" [B]
  std::optional<double> bytes_per_s(std::string_view key);  ///< "12GB/s"
  std::optional<double> flops_per_s(std::string_view key);  ///< "4.29TFLOP/s"
  std::optional<double> seconds(std::string_view key);      ///< "25us"
  std::optional<TomlTable> table(std::string_view key);
  std::vector<TomlTable> tables(std::string_view key);  ///< [[key]], in order; empty if absent.

  /// "file:line", of the key if given and present, for the caller's own errors.
  std::string where(std::string_view key = {}) const;
  /// Notes an error of the caller's at a key; the first one wins.
  void fail(std::string_view key, std::string_view what, std::string_view cure = {});
  /// The same for an error that is complete but for its place.
  void fail(std::string_view key, const Error& error);

 private:
  friend class TomlDocument;
  TomlTable(std::shared_ptr<TomlDocument::State> state, std::size_t number)
      : state_{std::move(state)}, number_{number} {}
  template <class T, class Parse>
  std::optional<T> unit(std::string_view key, Parse parse);

  std::shared_ptr<TomlDocument::State> state_;
  std::size_t number_;  // Of the visited tables of the document.
};

}  // namespace emplace
