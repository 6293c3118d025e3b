#pragma once
/// Brackets and quotes of a text, for readers that cut lines and lists where neither is open.

#include <string_view>

namespace emplace {

/// Reads a text character by character. A backslash in a quote hides the next character. A plain value.
class Nesting {
 public:
  /// @param quotes  characters that begin a quote, and end it if they began it; must outlive this.
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
  int open() const { return open_; }  ///< Brackets; negative where more closed than opened.
  /// Neither in a quote nor in brackets.
  bool outside() const { return quote_ == 0 && open_ == 0; }

 private:
  std::string_view quotes_;
  char quote_ = 0;  // That is open, or 0.
  bool hidden_ = false;
  int open_ = 0;
};

}  // namespace emplace
