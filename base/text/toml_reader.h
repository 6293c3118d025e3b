#pragma once
/// A strict TOML reader: every error has file and line, unknown keys are errors, sizes carry units.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace emplace {

class TomlTable;

/// A parsed file and its first error. Thread: one owner.
class TomlDocument {
 public:
  /// Errors: kIo; kInvalid with line and column if it is not TOML.
  static Result<TomlDocument> load(const std::filesystem::path& path);
  static Result<TomlDocument> parse(std::string_view text, std::string_view where);

  TomlTable root();
  /// Moves a value to another key before anything is read; it keeps its line: "policy.hidden" to
  /// "policy.placeto.hidden". An empty `to` drops the value. Returns false if `from` is missing. Errors
  /// (kInvalid): both keys are set, or a part of `to` is not a table.
  Result<bool> move(std::string_view from, std::string_view to);
  /// Replaces a text, or every equal element of an array of texts, before anything is read. Returns whether
  /// there was one.
  bool replace_text(std::string_view key, std::string_view from, std::string_view to);
  /// Returns the first error of any getter, or an unknown key of a visited table (with the nearest known
  /// key).
  Result<Unit> finish();

 private:
  friend class TomlTable;
  struct State;
  std::shared_ptr<State> state_;
};

/// One table. A getter returns nothing if the key is absent or of the wrong kind; finish() reports the
/// latter.
class TomlTable {
 public:
  std::optional<std::string> text(std::string_view key);
  bool is_text(std::string_view key) const;            ///< Whether the key is present and a text.
  std::optional<double> number(std::string_view key);  ///< Also accepts whole numbers.
  std::optional<std::int64_t> integer(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  std::optional<std::int64_t> bytes(std::string_view key);  ///< "12GiB" [B]
  std::optional<double> bytes_per_s(std::string_view key);  ///< "12GB/s"
  std::optional<double> flops_per_s(std::string_view key);  ///< "4.29TFLOP/s"
  std::optional<double> seconds(std::string_view key);      ///< "25us"
  std::optional<Reserve> reserve(std::string_view key);     ///< "10%", "2GiB" or 0.1
  std::optional<TomlTable> table(std::string_view key);
  std::vector<TomlTable> tables(std::string_view key);  ///< [[key]], in order; empty if absent.

  /// "file:line" of the key if given and present, else of the table; for errors of the caller.
  std::string where(std::string_view key = {}) const;
  /// Records an error at a key; the first error wins.
  void fail(std::string_view key, std::string_view what, std::string_view cure = {});
  /// Records an existing error at a key: adds file and line.
  void fail(std::string_view key, const Error& error);

 private:
  friend class TomlDocument;
  TomlTable(std::shared_ptr<TomlDocument::State> state, std::size_t number)
      : state_{std::move(state)}, number_{number} {}
  template <class T>
  std::optional<T> value(std::string_view key, std::string_view what);
  template <class T, class Parse>
  std::optional<T> unit(std::string_view key, Parse parse);

  std::shared_ptr<TomlDocument::State> state_;
  std::size_t number_;  // Index of this table among the visited tables of the document.
};

}  // namespace emplace
