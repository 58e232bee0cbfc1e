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

static void group_norm(const GroupNorm& n, int threads) {
  const Size blocks = (n.pixels + PIXEL_BLOCK - 1) / PIXEL_BLOCK, pair = 2 * n.channels;
  static thread_local Scratch own;
  float *sums = own.get(n.images * (blocks + 1) * pair), *factors = sums + n.images * blocks * pair;
  pool().share(n.images * blocks, threads, [&](Size item) {
    const Size first = item % blocks * PIXEL_BLOCK;
    sum_pixels(n, item / blocks, first, std::min(n.pixels, first + PIXEL_BLOCK), sums + item * pair);
  });
  for (Size item = 0; item < n.images * n.groups; item++)
    factors_of_group(n, item / n.groups, item % n.groups, blocks, sums, factors + item / n.groups * pair);
  pool().share(n.images * blocks, threads, [&](Size item) {
    const Size image = item / blocks, first = item % blocks * PIXEL_BLOCK, last = std::min(n.pixels, first + PIXEL_BLOCK);
    const float* by = factors + image * pair;
    for (Size p = image * n.pixels + first; p < image * n.pixels + last; p++)
      for (Size c = 0; c < n.channels; c += LANES) {
        const Vector value = load(n.x + p * n.channels + c) * load(by + c) + load(by + n.channels + c);
        store(n.y + p * n.channels + c, n.silu ? silu(value) : value);
      }
  });
}
