// What Python calls: plain C functions on pointers and sizes. Every size is checked there (operators.py).
#include "attention.h"
#include "linear.h"
#include "norm.h"
#include "winograd.h"

extern "C" {
int lockstep_lanes() { return LANES; }

void lockstep_pack_linear(const float* weights, float* packed, Size columns, Size depth, int threads) { pack_panels(weights, packed, columns, depth, threads); }

void lockstep_linear(const float* x, const float* packed, const float* bias, const float* residual, float* y, Size rows, Size columns, Size depth, int threads) {
  linear({x, packed, bias, residual, y, rows, columns, depth}, threads);
}

void lockstep_geglu(const float* x, const float* packed, const float* bias, float* y, Size rows, Size columns, Size depth, int threads) {
  geglu(x, packed, bias, y, rows, columns, depth, threads);
}

void lockstep_pack_convolution(const float* weights, float* packed, Size in, Size out, int stored, int threads) {
  pack_convolution(weights, packed, in, out, stored, threads);
}

void lockstep_convolution(const float* x, const float* packed, const float* bias, const float* residual, float* y, Size images, Size height, Size width, Size in, Size out,
                          Size bias_step, int stored, int threads) {
  const Convolution conv{x, packed, bias, residual, y, images, height, width, in, out, bias_step};
  stored ? convolve_stored(conv, threads) : convolve_made(conv, threads);
}

void lockstep_group_norm(const float* x, const float* weight, const float* bias, float* y, Size images, Size pixels, Size channels, Size groups, Size step, float eps, int silu,
                         int threads) {
  group_norm({x, weight, bias, y, images, pixels, channels, groups, step, eps, silu != 0}, threads);
}

void lockstep_attention(const float* q, const float* k, const float* v, const float* key_bias, float* out, Size batch, Size heads, Size queries, Size keys, Size width,
                        const Size* steps, float scale, int threads) {
  attention({q, k, v, key_bias, out, batch, heads, queries, keys, width, steps[0], steps[1], steps[2], steps[3], steps[4], steps[5], steps[6], steps[7], scale}, threads);
}
}
