#pragma once
/// A table on a screen: sorted, filtered, scrolled, with one row selected.

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/case.h"
#include "base/text/counts.h"
#include "base/text/words.h"
#include "launcher/terminal/terminal.h"

namespace emplace::launcher {

template <class Item>
struct ScreenColumn {
  std::string_view head;
  std::size_t width = 0;
  bool right = true;  ///< Aligned to the right.
  int rank = 0;       ///< On a narrow screen the columns with the highest ranks are left out; 0: never.
  std::string (*text)(const Item&) = nullptr;  ///< Returns printable text.
  double (*key)(const Item&) = nullptr;        ///< Sorts by it, largest first; null: not sortable.
};

/// The rows of a screen from any number of items. The first column has the items' names: unique, and sorted
/// in ascending order. The last one takes the width that is left. Only visible rows are formatted. The
/// selection stays with its name when rows move. Pure; one thread.
template <class Item>
class ScreenTable {
 public:
  using Column = ScreenColumn<Item>;
  /// `name`: of an item. `searched`: what a filter is compared with.
  ScreenTable(std::vector<Column> columns, const std::string& (*name)(const Item&),
              std::string (*searched)(const Item&))
      : columns_{std::move(columns)}, name_{name}, searched_{searched} {}

  /// Call when the items have changed, and before the other calls.
  void arrange(std::span<const Item> items) {
    order_.clear();
    for (std::uint32_t i = 0; i < items.size(); ++i)
      if (filter_.empty() || lower_case(searched_(items[i])).find(lower_case(filter_)) != std::string::npos)
        order_.push_back(i);
    std::vector<double> keys;
    if (const auto key = columns_[sort_].key; key != nullptr)
      for (const Item& item : items) keys.push_back(key(item));
    const auto before = [&](std::uint32_t a, std::uint32_t b) {
      if (reversed_) std::swap(a, b);
      if (!keys.empty() && keys[a] != keys[b]) return keys[a] > keys[b];
      // Rows of equal keys do not change places when the order is reversed.
      if (!keys.empty() && reversed_) std::swap(a, b);
      return name_(items[a]) < name_(items[b]);
    };
    std::sort(order_.begin(), order_.end(), before);
    const auto kept = std::find_if(order_.begin(), order_.end(),
                                   [&](std::uint32_t i) { return name_(items[i]) == selected_; });
    if (kept != order_.end()) at_ = static_cast<std::size_t>(kept - order_.begin());
    select(items, at_);
  }

  std::size_t size() const { return order_.size(); }
  /// Name of the selected item; empty: no item is shown.
  const std::string& selected() const { return selected_; }
  void move(std::span<const Item> items, std::ptrdiff_t by) {
    const auto to = static_cast<std::ptrdiff_t>(at_) + by;
    select(items, static_cast<std::size_t>(std::max<std::ptrdiff_t>(to, 0)));
  }
  void move_pages(std::span<const Item> items, std::ptrdiff_t pages) {
    move(items, pages * static_cast<std::ptrdiff_t>(std::max<std::size_t>(page_, 1)));
  }
  void to_first(std::span<const Item> items) { select(items, 0); }
  void to_last(std::span<const Item> items) { select(items, order_.size()); }
  /// Sorts by the next sortable column.
  void next_sort(std::span<const Item> items) {
    do {
      sort_ = (sort_ + 1) % columns_.size();
    } while (sort_ != 0 && columns_[sort_].key == nullptr);
    reversed_ = false;
    arrange(items);
  }
  void reverse(std::span<const Item> items) {
    reversed_ = !reversed_;
    arrange(items);
  }
  const std::string& filter() const { return filter_; }
  void set_filter(std::span<const Item> items, std::string filter) {
    filter_ = std::move(filter);
    arrange(items);
  }

  /// "1-20 of 10,000, sorted by busy", as of the last draw().
  std::string position(std::size_t items) const {
    std::string text =
        order_.empty() ? "0" : fmt::format("{}-{}", top_ + 1, std::min(order_.size(), top_ + page_));
    text += " of " + thousands(order_.size());
    if (order_.size() != items) text += fmt::format(" that match, {} in all", thousands(items));
    return text + ", sorted by " + lower_case(columns_[sort_].head) + (reversed_ ? ", reversed" : "");
  }

  /// Appends the heads and at most `rows` rows.
  void draw(std::vector<std::string>& lines, std::span<const Item> items, std::size_t rows,
            std::size_t columns, const Terminal& style) {
    page_ = rows;
    if (at_ < top_) top_ = at_;
    if (rows > 0 && at_ >= top_ + rows) top_ = at_ - rows + 1;
    top_ = std::min(top_, order_.size() - std::min(order_.size(), std::max<std::size_t>(rows, 1)));
    const std::vector<std::pair<const Column*, std::size_t>> shown = fitting(columns);
    std::vector<std::string> cells;
    cells.reserve(shown.size());
    for (const auto& [column, width] : shown)
      cells.push_back(std::string{column->head} +
                      (column == &columns_[sort_] ? (ascending() ? "▲" : "▼") : ""));
    lines.push_back(style.styled(Style::kDim, fit_width(row_of("  ", cells, shown), columns)));
    for (std::size_t i = top_; i < std::min(order_.size(), top_ + rows); ++i) {
      cells.clear();
      for (const auto& [column, width] : shown) cells.push_back(column->text(items[order_[i]]));
      const std::string line = fit_width(row_of(i == at_ ? "> " : "  ", cells, shown), columns);
      lines.push_back(i == at_ ? style.styled(Style::kBold, line) : line);
    }
  }

 private:
  static constexpr std::size_t kGap = 2;
  bool ascending() const { return reversed_ == (columns_[sort_].key != nullptr); }

  void select(std::span<const Item> items, std::size_t at) {
    at_ = order_.empty() ? 0 : std::min(at, order_.size() - 1);
    selected_ = order_.empty() ? std::string{} : name_(items[order_[at_]]);
  }

  /// Returns the columns that fit, with their widths.
  std::vector<std::pair<const Column*, std::size_t>> fitting(std::size_t columns) const {
    std::vector<std::pair<const Column*, std::size_t>> shown;
    for (int most = std::numeric_limits<int>::max();;) {
      shown.clear();
      std::size_t used = 0;
      int worst = 0;
      for (const Column& column : columns_) {
        if (column.rank >= most) continue;
        // A sorted head has a mark.
        const std::size_t width = std::max(column.width, column.head.size() + 1);
        shown.emplace_back(&column, width);
        used += kGap + width;
        worst = std::max(worst, column.rank);
      }
      if (used <= columns || worst == 0) {
        if (used < columns) shown.back().second += columns - used;
        return shown;
      }
      most = worst;
    }
  }

  static std::string row_of(std::string line, const std::vector<std::string>& cells,
                            const std::vector<std::pair<const Column*, std::size_t>>& shown) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = fit_width(cells[c], shown[c].second);
      const std::string gap(shown[c].second - display_width(cell), ' ');
      line += shown[c].first->right ? gap + cell : cell + gap;
      line += std::string(kGap, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    return line;
  }

  const std::vector<Column> columns_;
  const std::string& (*const name_)(const Item&);
  std::string (*const searched_)(const Item&);
  std::size_t sort_ = 0;
  bool reversed_ = false;
  std::string filter_;
  std::vector<std::uint32_t> order_;  // Items that are shown, sorted.
  std::string selected_;
  std::size_t at_ = 0;    // Row of the selection.
  std::size_t top_ = 0;   // First visible row.
  std::size_t page_ = 0;  // Rows of the last draw.
};

}  // namespace emplace::launcher
