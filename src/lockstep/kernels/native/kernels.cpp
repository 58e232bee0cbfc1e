// What Python calls: plain C functions on pointers and sizes. Every size is checked there (operators.py). Those that
// multiply are there for floats and, where the instructions are, for bf16; what they take and give is floats either way.
#include "attention.h"
#include "bands.h"
#include "patches.h"

#define PRODUCTS(NUMBERS, SUFFIX)                                                                                                                                          \
  void lockstep_pack_linear##SUFFIX(const float* weights, float* packed, Size columns, Size depth, int threads) { pack_panels<NUMBERS>(weights, packed, columns, depth, threads); } \
  void lockstep_linear##SUFFIX(const float* x, const float* packed, const float* bias, const float* residual, float* y, Size rows, Size columns, Size depth, int gelu,    \
                               int threads) {                                                                                                                             \
    linear<NUMBERS>({packed, bias, residual, y, rows, columns, depth, gelu != 0}, x, threads);                                                                                        \
  }                                                                                                                                                                        \
  void lockstep_geglu##SUFFIX(const float* x, const float* packed, const float* bias, float* y, Size rows, Size columns, Size depth, int threads) {                       \
    geglu<NUMBERS>(x, packed, bias, y, rows, columns, depth, threads);                                                                                                     \
  }                                                                                                                                                                        \
  void lockstep_pack_convolution##SUFFIX(const float* weights, float* packed, Size in, Size out, int stored, int threads) {                                               \
    pack_convolution<NUMBERS>(weights, packed, in, out, stored, threads);                                                                                                  \
  }                                                                                                                                                                        \
  void lockstep_convolution##SUFFIX(const float* x, const float* packed, const float* bias, const float* residual, float* y, Size images, Size height, Size width,        \
                                    Size in, Size out, Size bias_step, int stored, int threads) {                                                                         \
    convolve<NUMBERS>({x, packed, bias, residual, y, images, height, width, in, out, bias_step}, stored, threads);                                                         \
  }                                                                                                                                                                        \
  void lockstep_normed_convolution##SUFFIX(const float* x, const float* weight, const float* shift, const float* packed, const float* bias, const float* residual, float* y,    \
                                           Size images, Size height, Size width, Size in, Size out, Size bias_step, Size groups, float eps, int stored, int threads) {          \
    convolve_normed<NUMBERS>({x, packed, bias, residual, y, images, height, width, in, out, bias_step}, {x, weight, shift, nullptr, images, height * width, in, groups, 0, eps, true}, \
                             stored, threads);                                                                                                                                  \
  }                                                                                                                                                                        \
  void lockstep_doubled_convolution##SUFFIX(const float* x, const float* packed, const float* bias, float* y, Size images, Size height, Size width, Size in, Size out,     \
                                            int stored, int threads) {                                                                                                     \
    convolve<NUMBERS>({x, packed, bias, nullptr, y, images, height, width, in, out, 0, 0, 0, 1}, stored, threads);                                                         \
  }                                                                                                                                                                        \
  void lockstep_patches##SUFFIX(const float* x, const float* packed, const float* bias, float* y, Size images, Size height, Size width, Size in, Size out, Size size,      \
                                Size stride, Size padding, int threads) {                                                                                                  \
    convolve_patches<NUMBERS>({x, height, width, in, size, stride, padding}, packed, bias, y, images, out, threads);                                                       \
  }                                                                                                                                                                        \
  void lockstep_attention##SUFFIX(const float* q, const float* k, const float* v, const float* key_bias, float* out, Size batch, Size heads, Size queries, Size keys,     \
                                  Size width, const Size* steps, float scale, int threads) {                                                                              \
    attention<NUMBERS>({q, k, v, key_bias, out, batch, heads, queries, keys, width, steps[0], steps[1], steps[2], steps[3], steps[4], steps[5], steps[6], steps[7], scale}, threads); \
  }

extern "C" {
int lockstep_lanes() { return LANES; }

PRODUCTS(FP32, )
#if defined(__AVX512BF16__)
PRODUCTS(BF16, _bf16)
#endif

void lockstep_group_norm(const float* x, const float* weight, const float* bias, float* y, Size images, Size pixels, Size channels, Size groups, Size step, float eps, int silu,
                         int threads) {
  group_norm({x, weight, bias, y, images, pixels, channels, groups, step, eps, silu != 0}, threads);
}

void lockstep_row_norm(const float* x, const float* weight, const float* bias, float* y, Size images, Size rows, Size width, Size step, float eps, int centred, int threads) {
  row_norm({x, weight, bias, y, images, rows, width, step, eps, centred != 0}, threads);
}

void lockstep_join(const float* left, const float* right, float* y, Size pixels, Size lefts, Size rights, int threads) { join(left, right, y, pixels, lefts, rights, threads); }

int lockstep_same(const float* one, const float* other, Size count) { return memcmp(one, other, sizeof(float) * count) == 0; }

void lockstep_turn(const float* x, const float* cos, const float* sin, float* y, Size images, Size tokens, Size heads, Size width, Size table_step, int threads) {
  turn({x, cos, sin, y, images, tokens, heads, width, table_step}, threads);
}
}
