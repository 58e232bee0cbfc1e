// Linear layers: y = x W' + bias (+ residual), and gated ones, whose gate is applied while both factors are in registers.
#pragma once
#include <algorithm>
#include "product.h"
#include "threads.h"

static Size panels(Size columns) { return parts(columns, PANEL); }

// weights [columns][depth] to [columns / PANEL][units][PANEL], the last panel filled with zeros
template <class Numbers>
static void pack_panels(const float* weights, float* packed, Size columns, Size depth, int threads) {
  const Size units = Numbers::units(depth);
  pool().share(panels(columns), threads, [&](Size panel) {
    const Rows rows = gathered<Numbers>(weights + panel * PANEL * depth, depth, std::min<Size>(PANEL, columns - panel * PANEL), depth);
    for (Size k = 0; k < units; k++)
      for (int j = 0; j < PANEL; j++) {
        float* to = packed + (panel * units + k) * PANEL + j;
        if (panel * PANEL + j < columns) memcpy(to, rows.at + j * rows.step + k, sizeof(float));
        else *to = 0.f;
      }
  });
}

struct Linear {
  const float *packed, *bias, *residual;
  float* y;
  Size rows, columns, depth;
  bool gelu;  // bend the sum (before the residual) by the approximation of GELU
};

// One panel of the rows from `first` on, over `part` units from `start`; the first part brings the bias, the last one
// GELU and the residual.
template <class Numbers>
static void linear_panel(const Linear& l, const Rows& x, Size first, Size last, Size panel, Size start, Size part, Size units) {
  const bool bend = l.gelu && start + part == units;
  const float* weights = l.packed + (panel * units + start) * PANEL;
  const Size column = panel * PANEL;
  const int width = (int)std::min<Size>(PANEL, l.columns - column);
  const float *bias = l.bias ? l.bias + column : nullptr, *residual = l.residual && start + part == units ? l.residual + column : nullptr;
  for (Size m = first; m < last; m += ROWS) {
    float* y = l.y + m * l.columns + column;
    const int count = (int)std::min<Size>(ROWS, last - m);
    const float* rows = x.at + (m - first) * x.step;
    fetch_rows(y, l.columns, count, width);
    if (width == PANEL) {
      multiply_rows<Numbers>(count, rows, x.step, weights, part, weights + units * PANEL, [&](int i, Vector left, Vector right) __attribute__((always_inline)) {
        float* to = y + i * l.columns;
        if (start) left += load(to), right += load(to + LANES);
        else if (bias) left += load(bias), right += load(bias + LANES);
        if (bend) left = gelu_tanh(left), right = gelu_tanh(right);
        if (residual) left += load(residual + (m + i) * l.columns), right += load(residual + (m + i) * l.columns + LANES);
        store(to, left), store(to + LANES, right);
      });
    } else {
      float sums[ROWS][PANEL];
      multiply_rows<Numbers>(count, rows, x.step, weights, part, weights + units * PANEL, [&](int i, Vector left, Vector right) __attribute__((always_inline)) {
        store(sums[i], left), store(sums[i] + LANES, right);
      });
      for (int i = 0; i < count; i++)
        for (int j = 0; j < width; j++) {
          float& to = y[i * l.columns + j];
          const float sum = sums[i][j] + (start ? to : bias ? bias[j] : 0.f);
          to = (bend ? gelu_tanh(all(sum))[0] : sum) + (residual ? residual[(m + i) * l.columns + j] : 0.f);
        }
    }
  }
}

constexpr Size ROW_BLOCK = 144, UNIT_BLOCK = 48 * LANES, WHOLE = 64 * LANES;  // activations of a block stay in the second cache

// Units that are summed before a result is written: all of them, up to WHOLE.
static Size units_at_once(Size units) { return units <= WHOLE ? units : parts(units, parts(units, UNIT_BLOCK)); }

// How a product is shared: `blocks` of rows times `groups` of columns, so many that the threads are done together.
struct Shares {
  Size blocks, groups;
};

static Shares even_shares(Size rows, Size columns, Size units, int threads) {
  const Size most = units > UNIT_BLOCK && units <= WHOLE ? ROW_BLOCK * UNIT_BLOCK / WHOLE : ROW_BLOCK;
  const Size tiles = parts(rows, ROWS), least = std::max<Size>(1, parts(rows, most));
  Shares best{least, 1};
  Size shortest = INT64_MAX;
  for (Size groups = 1; groups <= std::min<Size>(columns, 2 * threads); groups *= 2)
    for (Size blocks = least; blocks <= std::min<Size>(tiles, least + threads); blocks++) {
      const Size longest = parts(blocks * groups, threads) * parts(tiles, blocks) * parts(columns, groups);
      if (longest < shortest) shortest = longest, best = {blocks, groups};
    }
  return best;
}

template <class Work>
static void share_blocks(Size rows, Size columns, Size units, int threads, const Work& work) {
  const Size tiles = parts(rows, ROWS);
  const auto [blocks, groups] = even_shares(rows, columns, units, threads);
  pool().share(blocks * groups, threads, [&](Size item) {
    const Size block = item / groups, group = item % groups;
    work(block * tiles / blocks * ROWS, std::min(rows, (block + 1) * tiles / blocks * ROWS), group * columns / groups, (group + 1) * columns / groups);
  });
}

// `rows_of(first, count, input, inputs)` are so many rows of the left side, and of each these inputs.
template <class Numbers, class RowsOf>
static void linear(const Linear& l, int threads, const RowsOf& rows_of) {
  const Size units = Numbers::units(l.depth), part = std::max<Size>(1, units_at_once(units));
  share_blocks(l.rows, panels(l.columns), units, threads, [&](Size first, Size last, Size from, Size to) {
    for (Size start = 0; start < units; start += part) {
      const Size input = start * Numbers::PACKED, inputs = std::min(part * Numbers::PACKED, l.depth - input);
      const Rows x = rows_of(first, last - first, input, inputs);
      for (Size panel = from; panel < to; panel++) linear_panel<Numbers>(l, x, first, last, panel, start, std::min(part, units - start), units);
    }
  });
}

template <class Numbers>
static void linear(const Linear& l, const float* x, int threads) {
  linear<Numbers>(l, threads, [&](Size first, Size count, Size input, Size inputs) { return gathered<Numbers>(x + first * l.depth + input, l.depth, count, inputs); });
}

// y = (x V' + a) gelu(x G' + b): a panel has LANES columns of V and the same ones of G, and `bias` likewise.
template <class Numbers>
static void geglu(const float* x, const float* packed, const float* bias, float* y, Size rows, Size columns, Size depth, int threads) {
  const Size units = Numbers::units(depth);
  share_blocks(rows, columns / LANES, units, threads, [&](Size first, Size last, Size from, Size to) {
    const Rows block = gathered<Numbers>(x + first * depth, depth, last - first, depth);
    for (Size panel = from; panel < to; panel++) {
      const float* weights = packed + panel * units * PANEL;
      const Vector a = load(bias + panel * PANEL), b = load(bias + panel * PANEL + LANES);
      for (Size m = first; m < last; m += ROWS) {
        const int count = (int)std::min<Size>(ROWS, last - m);
        fetch_rows(y + m * columns + panel * LANES, columns, count, LANES);
        multiply_rows<Numbers>(count, block.at + (m - first) * block.step, block.step, weights, units, weights + units * PANEL,
                               [&](int i, Vector value, Vector gate) __attribute__((always_inline)) { store(y + (m + i) * columns + panel * LANES, (value + a) * gelu(gate + b)); });
      }
    }
  });
}
