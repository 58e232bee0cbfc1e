// GroupNorm, with or without SiLU behind it, of feature maps with the channels last: one pass to sum, one to write.
#pragma once
#include <algorithm>
#include <cmath>
#include "threads.h"
#include "vectors.h"

struct GroupNorm {
  const float *x, *weight, *bias;
  float* y;
  Size images, pixels, channels, groups;
  Size step;  // between the weights (and the biases) of two images: 0, or `channels` where a time embedding scales them
  float eps;
  bool silu;
};

constexpr Size PIXEL_BLOCK = 128;

// Sums of a block of pixels for each channel, as differences from the image's first pixel: the mean of a channel is no part
// of what is squared, so nothing is lost where it is large.
static void sum_pixels(const GroupNorm& n, Size image, Size first, Size last, float* sums) {
  const float* x = n.x + image * n.pixels * n.channels;
  for (Size c = 0; c < n.channels; c += LANES) {
    const Vector pivot = load(x + c);
    Vector sum = {}, squares = {};
    for (Size p = first; p < last; p++) {
      const Vector value = load(x + p * n.channels + c) - pivot;
      sum += value;
      squares += value * value;
    }
    store(sums + c, sum), store(sums + n.channels + c, squares);
  }
}

// What each channel of a group is multiplied by and what is added to it.
static void factors_of_group(const GroupNorm& n, Size image, Size group, Size blocks, const float* sums, float* factors) {
  const Size width = n.channels / n.groups;
  const float* pivot = n.x + image * n.pixels * n.channels;
  double total = 0, squares = 0;
  for (Size c = group * width; c < (group + 1) * width; c++) {
    double sum = 0, square = 0;
    for (Size b = 0; b < blocks; b++) {
      const float* part = sums + (image * blocks + b) * 2 * n.channels;
      sum += part[c], square += part[n.channels + c];
    }
    const double shift = (double)pivot[c] - pivot[group * width];  // the group has one pivot: that of its first channel
    total += sum + shift * n.pixels;
    squares += square + 2 * shift * sum + shift * shift * n.pixels;
  }
  const double count = (double)n.pixels * width, mean = total / count, variance = std::max(0., squares / count - mean * mean);
  const double scale = 1 / std::sqrt(variance + n.eps), true_mean = mean + pivot[group * width];
  for (Size c = group * width; c < (group + 1) * width; c++) {
    const double weight = n.weight[image * n.step + c], bias = n.bias[image * n.step + c];
    factors[c] = (float)(weight * scale);
    factors[n.channels + c] = (float)(bias - true_mean * scale * weight);
  }
}

// Factors of all channels of all images, [image][2][channels]: what a channel is multiplied by, and what is added to it.
static const float* norm_factors(const GroupNorm& n, int threads) {
  const Size blocks = (n.pixels + PIXEL_BLOCK - 1) / PIXEL_BLOCK, pair = 2 * n.channels;
  static thread_local Scratch own;
  float *sums = own.get(n.images * (blocks + 1) * pair), *factors = sums + n.images * blocks * pair;
  pool().share(n.images * blocks, threads, [&](Size item) {
    const Size first = item % blocks * PIXEL_BLOCK;
    sum_pixels(n, item / blocks, first, std::min(n.pixels, first + PIXEL_BLOCK), sums + item * pair);
  });
  for (Size item = 0; item < n.images * n.groups; item++)
    factors_of_group(n, item / n.groups, item % n.groups, blocks, sums, factors + item / n.groups * pair);
  return factors;
}

// `count` pixels by the factors of their image
static void norm_pixels(const float* x, const float* factors, float* y, Size count, Size channels, bool bend) {
  for (Size p = 0; p < count; p++)
    for (Size c = 0; c < channels; c += LANES) {
      const Vector value = load(x + p * channels + c) * load(factors + c) + load(factors + channels + c);
      store(y + p * channels + c, bend ? silu(value) : value);
    }
}

static void group_norm(const GroupNorm& n, int threads) {
  const Size blocks = (n.pixels + PIXEL_BLOCK - 1) / PIXEL_BLOCK;
  const float* factors = norm_factors(n, threads);
  pool().share(n.images * blocks, threads, [&](Size item) {
    const Size image = item / blocks, first = item % blocks * PIXEL_BLOCK, at = (image * n.pixels + first) * n.channels;
    norm_pixels(n.x + at, factors + image * 2 * n.channels, n.y + at, std::min(PIXEL_BLOCK, n.pixels - first), n.channels, n.silu);
  });
}

// LayerNorm and RMSNorm of rows; weight and bias (either may be null) are one for all images or one for each.
struct RowNorm {
  const float *x, *weight, *bias;
  float* y;
  Size images, rows, width;  // rows of an image
  Size step;                 // between the weights of two images: 0 or `width`
  float eps;
  bool centred;  // LayerNorm takes the mean away
};

static double sum_lanes(Vector v) {
  double sum = 0;
  for (int i = 0; i < LANES; i++) sum += v[i];
  return sum;
}

// Differences from the row's first number are summed, so that a mean far from zero loses nothing.
static void norm_row(const RowNorm& n, const float* x, const float* weight, const float* bias, float* y) {
  const Vector pivot = all(n.centred ? x[0] : 0.f);
  Vector sums[4] = {}, squares[4] = {};
  Size c = 0;
  for (; c + 4 * LANES <= n.width; c += 4 * LANES)
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const Vector value = load(x + c + i * LANES) - pivot;
      sums[i] += value, squares[i] += value * value;
    }
  for (; c < n.width; c += LANES) {
    const Vector value = load(x + c) - pivot;
    sums[0] += value, squares[0] += value * value;
  }
  const double mean = n.centred ? sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])) / n.width : 0;
  const double variance = sum_lanes((squares[0] + squares[1]) + (squares[2] + squares[3])) / n.width - mean * mean;
  const double scale = 1 / std::sqrt((variance < 0 ? 0 : variance) + n.eps);
  const Vector factor = all((float)scale), shift = all((float)(-mean * scale));
  for (c = 0; c < n.width; c += LANES) {
    Vector value = (load(x + c) - pivot) * factor + shift;
    if (weight) value *= load(weight + c);
    if (bias) value += load(bias + c);
    store(y + c, value);
  }
}

static void row_norm(const RowNorm& n, int threads) {
  const Size block = std::max<Size>(1, 16384 / n.width), blocks = (n.rows + block - 1) / block;
  pool().share(n.images * blocks, threads, [&](Size item) {
    const Size image = item / blocks, first = item % blocks * block, last = std::min(n.rows, first + block);
    const float *weight = n.weight ? n.weight + image * n.step : nullptr, *bias = n.bias ? n.bias + image * n.step : nullptr;
    for (Size row = image * n.rows + first; row < image * n.rows + last; row++) norm_row(n, n.x + row * n.width, weight, bias, n.y + row * n.width);
  });
}

// Each pair of neighbouring numbers of a head turned by its angle: x cos + (-odd, even) sin, tables [tokens][width].
struct Turn {
  const float *x, *cos, *sin;
  float* y;
  Size images, tokens, heads, width;
  Size table_step;  // between the tables of two images, or 0
};

static inline Vector turned(Vector x) {
  Whole neighbours;
  Vector signs;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) neighbours[i] = i ^ 1, signs[i] = i % 2 ? 1.f : -1.f;
  return __builtin_shuffle(x, neighbours) * signs;
}

static void turn(const Turn& t, int threads) {
  const Size row = t.heads * t.width, block = std::max<Size>(1, 16384 / row), blocks = (t.tokens + block - 1) / block;
  pool().share(t.images * blocks, threads, [&](Size item) {
    const Size image = item / blocks, first = item % blocks * block, last = std::min(t.tokens, first + block);
    for (Size token = first; token < last; token++) {
      const float *cos = t.cos + image * t.table_step + token * t.width, *sin = t.sin + image * t.table_step + token * t.width;
      const Size at = (image * t.tokens + token) * row;
      for (Size head = at; head < at + row; head += t.width)
        for (Size d = 0; d < t.width; d += LANES) {
          const Vector x = load(t.x + head + d);
          store(t.y + head + d, x * load(cos + d) + turned(x) * load(sin + d));
        }
    }
  });
}

// The channels of two maps side by side.
static void join(const float* left, const float* right, float* y, Size pixels, Size lefts, Size rights, int threads) {
  const Size all = lefts + rights, block = std::max<Size>(1, 16384 / all);
  pool().share(parts(pixels, block), threads, [&](Size item) {
    for (Size p = item * block; p < std::min(pixels, (item + 1) * block); p++) {
      memcpy(y + p * all, left + p * lefts, sizeof(float) * lefts);
      memcpy(y + p * all + lefts, right + p * rights, sizeof(float) * rights);
    }
  });
}
