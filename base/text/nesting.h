#pragma once
/// Tracks brackets and quotes, for readers that split lines and lists only outside of both.

#include <string_view>

namespace emplace {

/// Reads a text character by character. A backslash in a quote escapes the next character. Thread: a plain
/// value.
class Nesting {
 public:
  /// @param quotes  quote characters; each closes only itself. Must outlive this.
  explicit Nesting(std::string_view quotes) : quotes_{quotes} {}

  void read(char c) {
    if (quote_ != 0) {
      if (hidden_) {
        hidden_ = false;
      } else if (c == '\\') {
        hidden_ = true;
      } else if (c == quote_) {
        quote_ = 0;
      }
    } else if (quotes_.find(c) != std::string_view::npos) {
      quote_ = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++open_;
    } else if (c == ')' || c == ']' || c == '}') {
      --open_;
    }
  }

  bool in_quote() const { return quote_ != 0; }
  int open() const { return open_; }  ///< Open brackets; negative if more were closed than opened.
  /// Returns whether the position is outside quotes and brackets.
  bool outside() const { return quote_ == 0 && open_ == 0; }

 private:
  std::string_view quotes_;
  char quote_ = 0;  // Open quote character, or 0.
  bool hidden_ = false;
  int open_ = 0;
};

}  // namespace emplace
