// 3x3 convolution, stride 1, padding 1, channels last, by Winograd's F(4x4, 3x3): 36 products for 16 pixels instead of 144.
// Interpolation at 0, +-3/4, +-3/2 and infinity: every constant of the data is exact in fp32, and the rounding error is
// half of that of the usual 0, +-1, +-2.
//   stored: the transformed weights lie ready, [36][out / PANEL][in][PANEL], four times the memory of the plain ones.
//   made:   the weights stay [out / PANEL][in][9][PANEL] and are transformed in the cache just before use, or once a call.
#pragma once
#include <algorithm>
#include "linear.h"

struct Convolution {
  const float *x, *weights, *bias, *residual;
  float* y;
  Size images, height, width, in, out;
  Size bias_step;  // between the biases of two images: 0, or `out` where a time embedding is added
  Size above = 0, below = 0;  // rows of the input that lie before and behind these
  int doubled = 0;            // 1: each pixel of the input is taken twice, in rows and in columns
  Size tiles_down() const { return (height + 3) / 4; }
  Size tiles_across() const { return (width + 3) / 4; }
  Size tiles() const { return images * tiles_down() * tiles_across(); }
};

constexpr int POINTS = 36;
constexpr Size AHEAD = 4 * LANES;  // floats of each plane that are fetched before they are read: too many planes for the processor to see by itself
constexpr Size APART = 48;        // floats between two planes: planes a multiple of 4 KiB apart would share lines of the cache
constexpr Size STORED_TILES = 96, STORED_OUT = 320, MADE_TILES = 64, MADE_IN = 4096 / PANEL;  // what is made stays in the second cache

static inline void to_points(const Vector* d, Vector* o) {  // B' d
  o[0] = d[0] * (81.f / 64) + (d[4] - d[2] * (45.f / 16));
  Vector even = d[4] - d[2] * 2.25f, odd = (d[3] - d[1] * 2.25f) * 0.75f;
  o[1] = even + odd, o[2] = even - odd;
  even = d[4] - d[2] * 0.5625f, odd = (d[3] - d[1] * 0.5625f) * 1.5f;
  o[3] = even + odd, o[4] = even - odd;
  o[5] = d[1] * (81.f / 64) + (d[5] - d[3] * (45.f / 16));
}

static inline void from_points(const Vector* m, Vector* o) {  // A' m
  const Vector s = m[1] + m[2], d = m[1] - m[2], t = m[3] + m[4], e = m[3] - m[4];
  o[0] = m[0] + (s + t);
  o[1] = d * 0.75f + e * 1.5f;
  o[2] = s * 0.5625f + t * 2.25f;
  o[3] = m[5] + (d * (27.f / 64) + e * (27.f / 8));
}

static inline void weights_to_points(const Vector* g, Vector* o) {  // G g
  o[0] = g[0] * (64.f / 81);
  Vector even = (g[0] + g[2] * 0.5625f) * (-128.f / 243), odd = g[1] * (-96.f / 243);
  o[1] = even + odd, o[2] = even - odd;
  even = (g[0] + g[2] * 2.25f) * (32.f / 243), odd = g[1] * (48.f / 243);
  o[3] = even + odd, o[4] = even - odd;
  o[5] = g[2];
}

// LANES output channels of one input channel, [9][PANEL] floats apart, to the 36 points, `step` floats apart
static inline void transform_channel(const float* from, float* to, Size step) {
  Vector column[6], rows[18];
#pragma GCC unroll 3
  for (int b = 0; b < 3; b++) {
    const Vector g[3] = {load(from + b * PANEL), load(from + (3 + b) * PANEL), load(from + (6 + b) * PANEL)};
    weights_to_points(g, column);
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) rows[i * 3 + b] = column[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; i++) {
    weights_to_points(rows + i * 3, column);
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) store(to + (i * 6 + j) * step, column[j]);
  }
}

// the same for a unit of input channels
template <class Numbers>
static inline void transform_weights(const float* from, float* to, Size step) {
  if constexpr (Numbers::PACKED == 1) transform_channel(from, to, step);
  else {
    float both[2][POINTS * LANES];
    for (int n = 0; n < 2; n++) transform_channel(from + n * 9 * PANEL, both[n], LANES);
    for (int p = 0; p < POINTS; p++) store(to + p * step, Numbers::pair(load(both[0] + p * LANES), load(both[1] + p * LANES)));
  }
}

// weights [out][in][3][3] to what the convolution reads: stored or to be made
template <class Numbers>
static void pack_convolution(const float* weights, float* packed, Size in, Size out, bool stored, int threads) {
  const Size count = panels(out), units = Numbers::units(in), plane = count * units * PANEL;
  pool().share(count, threads, [&](Size panel) {
    for (Size c = 0; c < in; c += Numbers::PACKED) {
      float nines[Numbers::PACKED * 9 * PANEL];
      for (int n = 0; n < Numbers::PACKED; n++)
        for (int j = 0; j < PANEL; j++)
          for (int a = 0; a < 9; a++) nines[(n * 9 + a) * PANEL + j] = panel * PANEL + j < out ? weights[((panel * PANEL + j) * in + c + n) * 9 + a] : 0.f;
      if (!stored) memcpy(packed + (panel * in + c) * 9 * PANEL, nines, sizeof nines);
      else
        for (int h = 0; h < PANEL; h += LANES) transform_weights<Numbers>(nines + h, packed + (panel * units + c / Numbers::PACKED) * PANEL + h, plane);
    }
  });
}

// The 6x6 pixels of a tile to 36 points; what lies outside of the picture is zero.
template <class Numbers>
static void transform_tile(const Convolution& conv, Size tile, float* points, Size step) {
  static const float zeros[LANES] = {};
  const Size across = conv.tiles_across(), image = tile / (conv.tiles_down() * across);
  const Size top = tile / across % conv.tiles_down() * 4 - 1, left = tile % across * 4 - 1;
  const float* pixel[POINTS];
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 6; j++) {
      const Size y = top + i, x = left + j;
      const bool inside = y >= -conv.above && y < conv.height + conv.below && x >= 0 && x < conv.width;
      pixel[i * 6 + j] = inside ? conv.x + (((image * conv.height + y) >> conv.doubled) * (conv.width >> conv.doubled) + (x >> conv.doubled)) * conv.in : nullptr;
    }
  for (Size c = 0; c < conv.in; c += LANES) {
    Vector d[6], o[6], rows[POINTS];
    for (int j = 0; j < 6; j++) {
#pragma GCC unroll 6
      for (int i = 0; i < 6; i++) d[i] = load(pixel[i * 6 + j] ? pixel[i * 6 + j] + c : zeros);
      to_points(d, o);
#pragma GCC unroll 6
      for (int i = 0; i < 6; i++) rows[i * 6 + j] = o[i];
    }
    for (int i = 0; i < 6; i++) {
      to_points(rows + i * 6, o);
#pragma GCC unroll 6
      for (int j = 0; j < 6; j++) Numbers::put(points + (i * 6 + j) * step + c / Numbers::PACKED, o[j]);
    }
  }
}

// 36 points of `count` output channels from `first` on to the 4x4 pixels of a tile, with bias and residual
static void untransform_tile(const Convolution& conv, Size tile, const float* points, Size step, Size first, Size count) {
  const Size across = conv.tiles_across(), image = tile / (conv.tiles_down() * across);
  const Size top = tile / across % conv.tiles_down() * 4, left = tile % across * 4;
  const Size high = std::min<Size>(4, conv.height - top), wide = std::min<Size>(4, conv.width - left);
  for (Size k = 0; k < count; k += LANES) {
    const Vector bias = conv.bias ? load(conv.bias + image * conv.bias_step + first + k) : Vector{};
    Vector d[6], o[4], rows[24];
#pragma GCC unroll 36
    for (int p = 0; p < POINTS; p++) __builtin_prefetch(points + p * step + k + AHEAD);
    for (int j = 0; j < 6; j++) {
#pragma GCC unroll 6
      for (int i = 0; i < 6; i++) d[i] = load(points + (i * 6 + j) * step + k);
      from_points(d, o);
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) rows[i * 6 + j] = o[i];
    }
    for (Size i = 0; i < high; i++) {
      from_points(rows + i * 6, o);
      for (Size j = 0; j < wide; j++) {
        const Size at = ((image * conv.height + top + i) * conv.width + left + j) * conv.out + first + k;
        Vector value = o[j] + bias;
        if (conv.residual) value += load(conv.residual + at);
        store(conv.y + at, value);
      }
    }
  }
}

// `count` tiles by one panel of weights, at one point; `sums` has `row` floats for each tile
template <class Numbers, int PACE = PANEL>
static inline void multiply_tiles(const float* points, Size step, Size count, const float* panel, Size units, const float* next, float* sums, Size row, bool add) {
  const Size rounds = (count + ROWS - 1) / ROWS;
  for (Size r = 0; r < rounds; r++) {
    const Size first = r * count / rounds, last = (r + 1) * count / rounds;
    multiply_rows<Numbers, PACE>((int)(last - first), points + first * step, step, panel, units, next, [&](int i, Vector left, Vector right) __attribute__((always_inline)) {
      float* to = sums + (first + i) * row;
      if (add) left += load(to), right += load(to + LANES);
      store(to, left), store(to + LANES, right);
    });
  }
}

// A thread takes a block of tiles through all three steps by itself.
template <class Numbers>
static void convolve_stored(const Convolution& conv, int threads) {
  const Size tiles = conv.tiles(), blocks = std::min(tiles, parts(parts(tiles, STORED_TILES), threads) * threads);  // as many for each thread
  const Size most = parts(tiles, blocks), row = std::min<Size>(STORED_OUT / PANEL * PANEL, panels(conv.out) * PANEL), units = Numbers::units(conv.in);
  const Size points_step = most * units + APART, sums_step = most * row + APART, plane = panels(conv.out) * units * PANEL;
  pool().share(blocks, threads, [&](Size block) {
    static thread_local Scratch own_points, own_sums;
    float *points = own_points.get(POINTS * points_step), *sums = own_sums.get(POINTS * sums_step);
    const Size first = block * tiles / blocks, last = (block + 1) * tiles / blocks;
    for (Size tile = first; tile < last; tile++) transform_tile<Numbers>(conv, tile, points + (tile - first) * units, points_step);
    for (Size start = 0; start < conv.out; start += row) {
      const Size count = std::min(row, conv.out - start);
      for (int point = 0; point < POINTS; point++)
        for (Size k = 0; k < count; k += PANEL) {
          const float* weights = conv.weights + point * plane + (start + k) * units;
          multiply_tiles<Numbers>(points + point * points_step, units, last - first, weights, units, weights + units * PANEL, sums + point * sums_step + k, row, false);
        }
      for (Size tile = first; tile < last; tile++) untransform_tile(conv, tile, sums + (tile - first) * row, sums_step, start, count);
    }
  });
}

// A thread makes the transformed weights of one panel of output channels, for a block of tiles that all threads share.
template <class Numbers>
static void convolve_made(const Convolution& conv, int threads) {
  constexpr Size MOST_TILES = MADE_TILES * Numbers::PACKED, MOST_IN = MADE_IN * Numbers::PACKED;
  const Size tiles = conv.tiles(), blocks = parts(tiles, MOST_TILES), most = parts(tiles, blocks), units = Numbers::units(conv.in);
  const Size part = parts(units, parts(conv.in, MOST_IN)), last = panels(conv.out) - 1;
  const Size points_step = most * units + APART, sums_step = most * PANEL + APART, made_step = part * PANEL + APART;
  static thread_local Scratch shared;
  float* points = shared.get(POINTS * points_step);
  for (Size block = 0; block < blocks; block++) {
    const Size first = block * tiles / blocks, count = (block + 1) * tiles / blocks - first;
    pool().share(count, threads, [&](Size tile) { transform_tile<Numbers>(conv, first + tile, points + tile * units, points_step); });
    pool().share(panels(conv.out), threads, [&](Size panel) {
      static thread_local Scratch own_made, own_sums;
      float *made = own_made.get(POINTS * made_step), *sums = own_sums.get(POINTS * sums_step);
      for (Size start = 0; start < units; start += part) {
        const Size depth = std::min(part, units - start);
        for (Size c = 0; c < depth; c++)
          for (int h = 0; h < PANEL; h += LANES)
            transform_weights<Numbers>(conv.weights + (panel * conv.in + (start + c) * Numbers::PACKED) * 9 * PANEL + h, made + c * PANEL + h, made_step);
        // the weights that are made next come from memory meanwhile: each of the 36 products fetches its part of them
        constexpr int PACE = 9 * PANEL * Numbers::PACKED / POINTS;
        const float* next = conv.weights + (start + depth < units ? panel * conv.in + (start + depth) * Numbers::PACKED : std::min(panel + threads, last) * conv.in) * 9 * PANEL;
        for (int point = 0; point < POINTS; point++)
          multiply_tiles<Numbers, PACE>(points + point * points_step + start, units, count, made + point * made_step, depth, next + point * depth * PACE, sums + point * sums_step, PANEL,
                                        start > 0);
      }
      const Size out = std::min<Size>(PANEL, conv.out - panel * PANEL);
      for (Size tile = 0; tile < count; tile++) untransform_tile(conv, first + tile, sums + tile * PANEL, sums_step, panel * PANEL, out);
    });
  }
}

constexpr Size ONCE_TILES = 256, ONCE_WEIGHTS = 512 * 512;  // from so many tiles on, and for so many weights (40 MB transformed)

// Where there are many tiles for few weights: all of these transformed for this call, instead of for each block of tiles.
template <class Numbers>
static bool made_once(Convolution& conv, int threads) {
  if (conv.tiles() < ONCE_TILES || conv.in * conv.out > ONCE_WEIGHTS) return false;
  const Size count = panels(conv.out), units = Numbers::units(conv.in), plane = count * units * PANEL;
  static thread_local Scratch own;
  float* made = own.get(POINTS * plane);
  pool().share(count, threads, [&](Size panel) {
    for (Size c = 0; c < units; c++)
      for (int h = 0; h < PANEL; h += LANES)
        transform_weights<Numbers>(conv.weights + (panel * conv.in + c * Numbers::PACKED) * 9 * PANEL + h, made + (panel * units + c) * PANEL + h, plane);
  });
  conv.weights = made;
  return true;
}

template <class Numbers>
static void convolve(Convolution conv, bool stored, int threads) {
  stored || made_once<Numbers>(conv, threads) ? convolve_stored<Numbers>(conv, threads) : convolve_made<Numbers>(conv, threads);
}
