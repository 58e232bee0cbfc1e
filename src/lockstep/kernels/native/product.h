// y = x W' with the weights in panels of PANEL columns, [columns / PANEL][units][PANEL].
#pragma once
#include "numbers.h"

// `count` rows of `width` floats that will be read or written soon, fetched now
static inline void fetch_rows(const float* rows, Size step, int count, int width) {
  for (int i = 0; i < count; i++)
    for (int j = 0; j < width; j += 16) __builtin_prefetch(rows + i * step + j, 1);
}

// COUNT rows of one panel, summed over `units`; `out(row, left, right)` takes the two vectors of each row. While a panel
// is used, PACE floats for each unit are fetched, from `next` on.
template <class Numbers, int COUNT, int PACE, class Out>
static inline __attribute__((always_inline)) void multiply(const float* x, Size step, const float* panel, Size units, const float* next, const Out& out) {
  Vector sum[COUNT][2];
#pragma GCC unroll 16
  for (int i = 0; i < COUNT; i++) sum[i][0] = sum[i][1] = Vector{};
  const float* row[(COUNT + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < (COUNT + 2) / 3; i++) row[i] = x + 3 * i * step;
#pragma GCC unroll 4
  for (Size k = 0; k < units; k++) {
#pragma GCC unroll 2
    for (int j = 0; j < PACE; j += 16) __builtin_prefetch(next + k * PACE + j, 0, 2);
    const Vector left = load(panel + k * PANEL), right = load(panel + k * PANEL + LANES);
#pragma GCC unroll 16
    for (int i = 0; i < COUNT; i++) {
      const Vector value = Numbers::spread(row[i / 3] + i % 3 * step + k);
      sum[i][0] = Numbers::add(sum[i][0], value, left);
      sum[i][1] = Numbers::add(sum[i][1], value, right);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < COUNT; i++) out(i, sum[i][0], sum[i][1]);
}

template <class Numbers, int PACE = PANEL, class Out, int COUNT = ROWS>
static inline void multiply_rows(int count, const float* x, Size step, const float* panel, Size units, const float* next, const Out& out) {
  if (count == COUNT) return multiply<Numbers, COUNT, PACE>(x, step, panel, units, next, out);
  if constexpr (COUNT > 1) multiply_rows<Numbers, PACE, Out, COUNT - 1>(count, x, step, panel, units, next, out);
}
