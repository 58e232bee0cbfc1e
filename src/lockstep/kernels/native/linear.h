// Linear layers: y = x W' + bias (+ residual), and GEGLU, whose gate is applied while both factors are in registers.
#pragma once
#include <algorithm>
#include "product.h"
#include "threads.h"

static Size panels(Size columns) { return (columns + PANEL - 1) / PANEL; }

// weights [columns][depth] to [columns / PANEL][depth][PANEL], the last panel filled with zeros
static void pack_panels(const float* weights, float* packed, Size columns, Size depth, int threads) {
  pool().share(panels(columns), threads, [&](Size panel) {
    for (Size k = 0; k < depth; k++)
      for (int j = 0; j < PANEL; j++) {
        const Size column = panel * PANEL + j;
        packed[(panel * depth + k) * PANEL + j] = column < columns ? weights[column * depth + k] : 0.f;
      }
  });
}

struct Linear {
  const float *x, *packed, *bias, *residual;
  float* y;
  Size rows, columns, depth;
};

// One panel of rows first..last, over the inputs from `start`; the first part of the inputs brings bias and residual.
static void linear_panel(const Linear& l, Size first, Size last, Size panel, Size start, Size part) {
  const float* weights = l.packed + (panel * l.depth + start) * PANEL;
  const Size column = panel * PANEL;
  const int width = (int)std::min<Size>(PANEL, l.columns - column);
  const float *bias = l.bias ? l.bias + column : nullptr, *residual = l.residual ? l.residual + column : nullptr;
  for (Size m = first; m < last; m += ROWS) {
    float* y = l.y + m * l.columns + column;
    const int count = (int)std::min<Size>(ROWS, last - m);
    const float* x = l.x + m * l.depth + start;
    if (width == PANEL) {
      multiply_rows(count, x, l.depth, weights, part, l.depth, [&](int i, Vector left, Vector right) __attribute__((always_inline)) {
        float* to = y + i * l.columns;
        if (start) left += load(to), right += load(to + LANES);
        else {
          if (bias) left += load(bias), right += load(bias + LANES);
          if (residual) left += load(residual + (m + i) * l.columns), right += load(residual + (m + i) * l.columns + LANES);
        }
        store(to, left), store(to + LANES, right);
      });
    } else {
      float sums[ROWS][PANEL];
      multiply_rows(count, x, l.depth, weights, part, l.depth, [&](int i, Vector left, Vector right) __attribute__((always_inline)) {
        store(sums[i], left), store(sums[i] + LANES, right);
      });
      for (int i = 0; i < count; i++)
        for (int j = 0; j < width; j++) {
          float& to = y[i * l.columns + j];
          to = sums[i][j] + (start ? to : (bias ? bias[j] : 0.f) + (residual ? residual[(m + i) * l.columns + j] : 0.f));
        }
    }
  }
}

constexpr Size ROW_BLOCK = 192, DEPTH_BLOCK = 640;  // activations of a block stay in the second cache

// Blocks of rows; where there are few, the columns are shared among the threads too.
template <class Work>
static void share_blocks(Size rows, Size columns, int threads, const Work& work) {
  const Size blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK, groups = blocks >= 4 ? 1 : std::min<Size>(columns, 4);
  pool().share(blocks * groups, threads, [&](Size item) {
    const Size block = item / groups, group = item % groups;
    work(block * ROW_BLOCK, std::min(rows, (block + 1) * ROW_BLOCK), group * columns / groups, (group + 1) * columns / groups);
  });
}

static void linear(const Linear& l, int threads) {
  const Size parts = std::max<Size>(1, (l.depth + DEPTH_BLOCK - 1) / DEPTH_BLOCK), part = (l.depth + parts - 1) / parts;
  share_blocks(l.rows, panels(l.columns), threads, [&](Size first, Size last, Size from, Size to) {
    for (Size start = 0; start < l.depth; start += part)
      for (Size panel = from; panel < to; panel++) linear_panel(l, first, last, panel, start, std::min(part, l.depth - start));
  });
}

// y = (x V' + a) gelu(x G' + b): a panel has LANES columns of V and the same ones of G, and `bias` likewise.
static void geglu(const float* x, const float* packed, const float* bias, float* y, Size rows, Size columns, Size depth, int threads) {
  share_blocks(rows, columns / LANES, threads, [&](Size first, Size last, Size from, Size to) {
    for (Size panel = from; panel < to; panel++) {
      const Vector a = load(bias + panel * PANEL), b = load(bias + panel * PANEL + LANES);
      for (Size m = first; m < last; m += ROWS)
        multiply_rows((int)std::min<Size>(ROWS, last - m), x + m * depth, depth, packed + panel * depth * PANEL, depth, depth,
                      [&](int i, Vector value, Vector gate) __attribute__((always_inline)) { store(y + (m + i) * columns + panel * LANES, (value + a) * gelu(gate + b)); });
    }
  });
}
