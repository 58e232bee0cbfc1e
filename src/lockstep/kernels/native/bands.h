// Convolutions of large maps in bands of rows. What the convolution reads is made for a band and the rows next to it, and
// is never there as a whole: a map that is normed (by the sums of the whole map) and bent. Bands begin at tiles, so the
// numbers are those of the whole map.
#pragma once
#include "norm.h"
#include "winograd.h"

constexpr Size BAND = 2 << 20;  // floats that a band of the input may have

// `fill(image, row, to)` makes one row of the input.
template <class Numbers, class Fill>
static void convolve_bands(Convolution conv, bool stored, int threads, const Fill& fill) {
  stored = stored || made_once<Numbers>(conv, threads);
  const Size row = conv.width * conv.in, out_row = conv.width * conv.out;
  const Size wanted = std::max<Size>(1, BAND / (4 * row)) * 4, bands = parts(conv.height, wanted), rows = parts(conv.height, 4 * bands) * 4;
  static thread_local Scratch own;
  float* made = own.get((std::min(rows, conv.height) + 2) * row);
  for (Size image = 0; image < conv.images; image++)
    for (Size first = 0; first < conv.height; first += rows) {
      const Size last = std::min(conv.height, first + rows), above = first > 0, below = last < conv.height;
      pool().share(last - first + above + below, threads, [&](Size i) { fill(image, first - above + i, made + i * row); });
      const Size at = (image * conv.height + first) * out_row;
      const float *bias = conv.bias ? conv.bias + image * conv.bias_step : nullptr, *residual = conv.residual ? conv.residual + at : nullptr;
      const Convolution band{made + above * row, conv.weights, bias, residual, conv.y + at, 1, last - first, conv.width, conv.in, conv.out, 0, above, below};
      stored ? convolve_stored<Numbers>(band, threads) : convolve_made<Numbers>(band, threads);
    }
}

// a convolution of SiLU of the group norm of a map
template <class Numbers>
static void convolve_normed(const Convolution& conv, const GroupNorm& norm, bool stored, int threads) {
  const float* factors = norm_factors(norm, threads);
  convolve_bands<Numbers>(conv, stored, threads, [&](Size image, Size row, float* to) {
    norm_pixels(conv.x + (image * conv.height + row) * conv.width * conv.in, factors + image * 2 * conv.in, to, conv.width, conv.in, true);
  });
}
