// Any other convolution: the pixels that a result is made of, side by side, are a row of a linear layer. They are gathered
// for a block of rows at a time and are never there as a whole. Weights are [out][size][size][in], packed as a linear layer's.
#pragma once
#include "linear.h"

struct Patches {
  const float* x;
  Size height, width, in, size, stride, padding;
  Size down() const { return (height + 2 * padding - size) / stride + 1; }
  Size across() const { return (width + 2 * padding - size) / stride + 1; }
};

// the numbers from `input` on of one patch; what lies outside of the picture is zero
static void copy_patch(const Patches& p, Size row, Size input, Size inputs, float* to) {
  const Size image = row / (p.down() * p.across()), top = row / p.across() % p.down() * p.stride - p.padding, left = row % p.across() * p.stride - p.padding;
  for (Size at = input, end = input + inputs, next; at < end; to += next - at, at = next) {
    const Size tap = at / p.in, y = top + tap / p.size, x = left + tap % p.size;
    next = std::min((tap + 1) * p.in, end);
    if (y >= 0 && y < p.height && x >= 0 && x < p.width) memcpy(to, p.x + ((image * p.height + y) * p.width + x) * p.in + at % p.in, sizeof(float) * (next - at));
    else memset(to, 0, sizeof(float) * (next - at));
  }
}

template <class Numbers>
static Rows patch_rows(const Patches& p, Size first, Size count, Size input, Size inputs) {
  static thread_local Scratch own, one;
  const Size apart = (Numbers::units(inputs) + 15) / 16 * 16 + 16;
  float *to = own.get(count * apart), *patch = one.get(inputs);
  for (Size i = 0; i < count; i++) {
    copy_patch(p, first + i, input, inputs, Numbers::PACKED == 1 ? to + i * apart : patch);
    if (Numbers::PACKED > 1) Numbers::gather(patch, to + i * apart, inputs);
  }
  return {to, apart};
}

template <class Numbers>
static void convolve_patches(const Patches& p, const float* packed, const float* bias, float* y, Size images, Size out, int threads) {
  const Linear l{packed, bias, nullptr, y, images * p.down() * p.across(), out, p.size * p.size * p.in, false};
  linear<Numbers>(l, threads, [&](Size first, Size count, Size input, Size inputs) { return patch_rows<Numbers>(p, first, count, input, inputs); });
}
