#pragma once
/// The kernels, written once on Lanes and compiled once per instruction set. They must not call a function
/// that another file may emit too: the linker would keep only one of them, possibly for the wrong machine.

#include "policy/nn/kernels.h"
#include "policy/nn/lanes.h"

namespace {

using emplace::policy::Activation;
using emplace::policy::kPanel;
using Size = std::ptrdiff_t;

/// Adds k products to each of `Panels` panels by `Columns` columns of sums. `step` is from one column of a
/// panel to the next.
template <int Panels, int Columns>
[[gnu::always_inline]] inline void add_products(Size k, const float* a, Size panel_stride, Size step,
                                                const float* b, Size b_row, Size b_col,
                                                Lanes (&sums)[Panels][2][Columns]) {
  for (Size p = 0; p < k; ++p) {
    Lanes at[Panels][2];
    for (int q = 0; q < Panels; ++q) {
      at[q][0] = Lanes::load(a + q * panel_stride + p * step);
      at[q][1] = Lanes::load(a + q * panel_stride + p * step + kLanes);
    }
    for (int j = 0; j < Columns; ++j) {
      const Lanes x = Lanes::all(b[p * b_row + j * b_col]);
      for (int q = 0; q < Panels; ++q) {
        sums[q][0][j] = fma(at[q][0], x, sums[q][0][j]);
        sums[q][1][j] = fma(at[q][1], x, sums[q][1][j]);
      }
    }
  }
}

/// Keeps `Panels` panels by `Columns` columns of C in registers for all k.
template <int Panels, int Columns>
void product_tile(Size k, const float* a, Size panel_stride, Size step, const float* b, Size b_row,
                  Size b_col, float* const* c, Size ldc) {
  Lanes sums[Panels][2][Columns];
  for (int q = 0; q < Panels; ++q) {
    for (int j = 0; j < Columns; ++j) {
      sums[q][0][j] = Lanes::load(c[q] + j * ldc);
      sums[q][1][j] = Lanes::load(c[q] + j * ldc + kLanes);
    }
  }
  add_products<Panels, Columns>(k, a, panel_stride, step, b, b_row, b_col, sums);
  for (int q = 0; q < Panels; ++q) {
    for (int j = 0; j < Columns; ++j) {
      sums[q][0][j].store(c[q] + j * ldc);
      sums[q][1][j].store(c[q] + j * ldc + kLanes);
    }
  }
}

/// All panels of one strip of columns. If C ends inside a panel, its last rows use a padded tile.
template <int Panels, int Columns>
void product_strip(Size m, Size k, const float* a, const float* b, Size b_row, Size b_col, float* c,
                   Size ldc) {
  const Size panel_stride = kPanel * k;
  Size i = 0;
  for (; i + Panels * kPanel <= m; i += Panels * kPanel) {
    float* tiles[Panels];
    for (int q = 0; q < Panels; ++q) tiles[q] = c + i + q * kPanel;
    product_tile<Panels, Columns>(k, a + i / kPanel * panel_stride, panel_stride, kPanel, b, b_row, b_col,
                                  tiles, ldc);
  }
  for (; i < m; i += kPanel) {
    const Size rows = m - i < kPanel ? m - i : kPanel;
    float edge[Columns * kPanel] = {};
    float* tile = rows == kPanel ? c + i : edge;
    for (int j = 0; j < Columns && tile == edge; ++j) {
      for (Size r = 0; r < rows; ++r) edge[j * kPanel + r] = c[j * ldc + i + r];
    }
    product_tile<1, Columns>(k, a + i / kPanel * panel_stride, panel_stride, kPanel, b, b_row, b_col, &tile,
                             tile == edge ? kPanel : ldc);
    for (int j = 0; j < Columns && tile == edge; ++j) {
      for (Size r = 0; r < rows; ++r) c[j * ldc + i + r] = edge[j * kPanel + r];
    }
  }
}

#if defined(__AVX512F__)
constexpr int kColumns = 12, kPanelsOfOne = 4, kPanelsOfTwo = 4, kPanelsOfFour = 2;
#else
constexpr int kColumns = 2, kPanelsOfOne = 2, kPanelsOfTwo = 1, kPanelsOfFour = 1;
#endif
constexpr Size kWideFrom = 24, kTallFrom = 4 * kPanel;  // Columns and rows from which packing B pays.

/// Depth and columns of the parts of B that a wide product packs: a panel of A of this depth stays in the
/// first cache, and the part in the second. kWidth is a multiple of kColumns.
constexpr Size kDepth = 128, kWidth = 252;

/// The first n / kColumns strips of kColumns columns. Parts of a sum continue in C, so each C(i, j) stays one
/// chain.
void product_of_strips(Size m, Size n, Size k, const float* a, const float* b, Size b_row, Size b_col,
                       float* c, Size ldc) {
  float part[kDepth * kWidth];
  for (Size first = 0; first + kColumns <= n; first += kWidth) {
    const Size strips = (n - first < kWidth ? n - first : kWidth) / kColumns;
    for (Size from = 0; from < k; from += kDepth) {
      const Size depth = k - from < kDepth ? k - from : kDepth;
      for (Size s = 0; s < strips; ++s) {
        for (Size p = 0; p < depth; ++p) {
          for (Size j = 0; j < kColumns; ++j)
            part[(s * depth + p) * kColumns + j] = b[(from + p) * b_row + (first + s * kColumns + j) * b_col];
        }
      }
      for (Size i = 0; i < m; i += kPanel) {
        for (Size s = 0; s < strips; ++s)
          product_strip<1, kColumns>(m - i < kPanel ? m - i : kPanel, depth, a + i * k + from * kPanel,
                                     part + s * depth * kColumns, kColumns, 1,
                                     c + (first + s * kColumns) * ldc + i, ldc);
      }
    }
  }
}

void product(Size m, Size n, Size k, const float* a, const float* b, Size b_row, Size b_col, float* c,
             Size ldc) {
  const Size wide = n >= kWideFrom && m >= kTallFrom ? n - n % kColumns : 0;
  if (wide > 0) product_of_strips(m, wide, k, a, b, b_row, b_col, c, ldc);
  Size j = wide;
  for (; j + kColumns <= n; j += kColumns)
    product_strip<1, kColumns>(m, k, a, b + j * b_col, b_row, b_col, c + j * ldc, ldc);
  for (; j + 4 <= n; j += 4)
    product_strip<kPanelsOfFour, 4>(m, k, a, b + j * b_col, b_row, b_col, c + j * ldc, ldc);
  for (; j + 2 <= n; j += 2)
    product_strip<kPanelsOfTwo, 2>(m, k, a, b + j * b_col, b_row, b_col, c + j * ldc, ldc);
  for (; j < n; ++j) product_strip<kPanelsOfOne, 1>(m, k, a, b + j * b_col, b_row, b_col, c + j * ldc, ldc);
}

/// One panel by `Columns` columns of a layer; `c` and `gate` have m rows a column.
template <int Columns>
void affine_tile(Size k, const float* a, const float* bias, const float* b, Size ldb, Activation act,
                 const float* gate, float* c, Size m) {
  Lanes sums[1][2][Columns];
  const Lanes above = bias != nullptr ? Lanes::load(bias) : Lanes::all(0),
              below = bias != nullptr ? Lanes::load(bias + kLanes) : Lanes::all(0);
  for (int j = 0; j < Columns; ++j) sums[0][0][j] = above, sums[0][1][j] = below;
  add_products<1, Columns>(k, a, 0, kPanel, b, 1, ldb, sums);
  const Lanes zero = Lanes::all(0);
  for (int j = 0; j < Columns; ++j) {
    for (int half = 0; half < 2; ++half) {
      Lanes& y = sums[0][half][j];
      if (act == Activation::kRelu) y = larger(y, zero);
      if (act == Activation::kGate) y = gated(y, Lanes::load(gate + j * m + half * kLanes));
      y.store(c + j * m + half * kLanes);
    }
  }
}

template <int Columns>
void affine_strip(Size m, Size k, const float* a, const float* bias, const float* b, Size ldb, Activation act,
                  const float* gate, float* c) {
  for (Size i = 0; i < m; i += kPanel) {
    const float* const panel = a + i * k;
    const float* const start = bias != nullptr ? bias + i : nullptr;
    if (i + kPanel <= m) {
      affine_tile<Columns>(k, panel, start, b, ldb, act, gate != nullptr ? gate + i : nullptr, c + i, m);
      continue;
    }
    float open[Columns * kPanel] = {}, edge[Columns * kPanel];
    for (int j = 0; j < Columns && gate != nullptr; ++j) {
      for (Size r = 0; r < m - i; ++r) open[j * kPanel + r] = gate[j * m + i + r];
    }
    affine_tile<Columns>(k, panel, start, b, ldb, act, open, edge, kPanel);
    for (int j = 0; j < Columns; ++j) {
      for (Size r = 0; r < m - i; ++r) c[j * m + i + r] = edge[j * kPanel + r];
    }
  }
}

/// The last columns, fewer than a full tile, in one tile.
template <int Columns>
void affine_rest(Size m, Size n, Size k, const float* a, const float* bias, const float* b, Size ldb,
                 Activation act, const float* gate, float* c) {
  if (n == Columns) return affine_strip<Columns>(m, k, a, bias, b, ldb, act, gate, c);
  if constexpr (Columns > 1) affine_rest<Columns - 1>(m, n, k, a, bias, b, ldb, act, gate, c);
}

void affine(Size m, Size n, Size k, const float* a, const float* bias, const float* b, Size ldb,
            Activation act, const float* gate, float* c) {
  const auto open = [&](Size j) { return gate != nullptr ? gate + j * m : nullptr; };
  Size j = 0;
  for (; j + kColumns <= n; j += kColumns)
    affine_strip<kColumns>(m, k, a, bias, b + j * ldb, ldb, act, open(j), c + j * m);
  if (j < n) affine_rest<kColumns - 1>(m, n - j, k, a, bias, b + j * ldb, ldb, act, open(j), c + j * m);
}

template <int Columns>
void strip_of_columns(Size m, Size n, Size k, const float* a, const float* b, float* c) {
  for (Size i = 0; i < m; i += kPanel) {
    float* const tile = c + i;
    product_tile<1, Columns>(k, a + i, 0, m, b, n, 1, &tile, m);
  }
}

void product_of_columns(Size m, Size n, Size k, const float* a, const float* b, float* c) {
  Size j = 0;
  for (; j + kColumns <= n; j += kColumns) strip_of_columns<kColumns>(m, n, k, a, b + j, c + j * m);
  for (; j + 4 <= n; j += 4) strip_of_columns<4>(m, n, k, a, b + j, c + j * m);
  for (; j < n; ++j) strip_of_columns<1>(m, n, k, a, b + j, c + j * m);
}

/// to [rows] = scale · (start + Σ_k the column at(k)); `start` null: 0.
template <class At>
[[gnu::always_inline]] inline void sum_up(Size rows, Size count, const float* start, At at, float scale,
                                          float* to) {
  Size i = 0;
  for (; i + 2 * kLanes <= rows; i += 2 * kLanes) {
    Lanes above = Lanes::all(0), below = above;
    if (start != nullptr) above = Lanes::load(start + i), below = Lanes::load(start + i + kLanes);
    for (Size k = 0; k < count; ++k) {
      above = above + Lanes::load(at(k) + i);
      below = below + Lanes::load(at(k) + i + kLanes);
    }
    (above * Lanes::all(scale)).store(to + i);
    (below * Lanes::all(scale)).store(to + i + kLanes);
  }
  for (; i < rows; ++i) {
    float sum = start != nullptr ? start[i] : 0.0f;
    for (Size k = 0; k < count; ++k) sum += at(k)[i];
    to[i] = sum * scale;
  }
}

void sum_columns(Size rows, Size count, const std::uint32_t* index, const float* from, float scale,
                 float* to) {
  sum_up(
      rows, count, nullptr, [&](Size k) { return from + rows * index[k]; }, scale, to);
}

void add_to_columns(Size rows, Size count, const std::uint32_t* index, const float* from, float* to) {
  for (Size k = 0; k < count; ++k) {
    float* const column = to + rows * index[k];
    Size i = 0;
    for (; i + kLanes <= rows; i += kLanes)
      (Lanes::load(column + i) + Lanes::load(from + i)).store(column + i);
    for (; i < rows; ++i) column[i] += from[i];
  }
}

void add_columns(Size rows, Size count, const float* from, float* to) {
  sum_up(
      rows, count, to, [&](Size k) { return from + rows * k; }, 1.0f, to);
}

void attend(Size rows, Size groups, const float* keys, const float* query, const float* v, float* scores) {
  for (Size g = 0; g < groups; ++g) {
    Lanes total = Lanes::all(0);
    for (Size h = 0; h < rows; h += kLanes) {
      total = fma(Lanes::load(v + h), tanh(Lanes::load(keys + g * rows + h) + Lanes::load(query + h)), total);
    }
    scores[g] = sum(total);
  }
}

void attend_backward(Size rows, Size groups, const float* keys, const float* query, const float* v,
                     const float* dscores, float* dkeys, float* dquery, float* dv) {
  for (Size g = 0; g < groups; ++g) {
    const Lanes ds = Lanes::all(dscores[g]);
    for (Size h = 0; h < rows; h += kLanes) {
      const Lanes t = tanh(Lanes::load(keys + g * rows + h) + Lanes::load(query + h));
      const Lanes flow = ds * Lanes::load(v + h) * (Lanes::all(1) - t * t);
      (Lanes::load(dkeys + g * rows + h) + flow).store(dkeys + g * rows + h);
      (Lanes::load(dquery + h) + flow).store(dquery + h);
      fma(ds, t, Lanes::load(dv + h)).store(dv + h);
    }
  }
}

float exponentials(Size n, float* x, float* peak) {
  Lanes top = Lanes::load(x);
  for (Size i = kLanes; i < n; i += kLanes) top = larger(top, Lanes::load(x + i));
  *peak = largest(top);
  const Lanes least = Lanes::all(*peak);
  Lanes total = Lanes::all(0);
  for (Size i = 0; i < n; i += kLanes) {
    const Lanes e = exp_negative(Lanes::load(x + i) - least);
    e.store(x + i);
    total = total + e;
  }
  return sum(total);
}

Size find_running_sum(Size n, const float* weight, float at) {
  float before = 0;
  for (Size i = 0; i < n; i += kLanes) {
    const float after = before + sum(Lanes::load(weight + i));
    if (after > at || i + kLanes == n) {
      for (Size j = i; j < i + kLanes; ++j) {
        before += weight[j];
        if (before > at) return j;
      }
    }
    before = after;
  }
  return n;
}

void add_noise(Size n, float* x, float deviation, const std::uint32_t* key) {
  const Lanes scale = Lanes::all(deviation);
  for (Size i = 0; i < n; i += 4 * kLanes) {
    Words words[4] = {Words::all(static_cast<unsigned>(i)) + Words::count(), Words::all(0),
                      Words::all(key[2]), Words::all(key[3])};
    philox(words, key[0], key[1]);
    for (int w = 0; w < 4 && i + w * kLanes < n; ++w) {
      float* const at = x + i + w * kLanes;
      fma(scale, nearly_normal(words[w]), Lanes::load(at)).store(at);
    }
  }
}

}  // namespace
