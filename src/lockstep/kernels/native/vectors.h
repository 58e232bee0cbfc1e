// Vectors of LANES floats for one instruction set: the same sources are compiled once for each (see setup.py).
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 12, KEYS = 8;  // 32 registers: 12 rows x 2 vectors, or 8 keys x 3 vectors, are summed at once
#elif defined(__AVX2__)
constexpr int LANES = 8, ROWS = 6, KEYS = 4;    // 16 registers
#else
constexpr int LANES = 4, ROWS = 6, KEYS = 4;    // NEON and what else has vectors of 16 bytes
#endif
constexpr int PANEL = 2 * LANES;    // columns of a product that are computed together
constexpr int QUERIES = 3 * LANES;  // queries of an attention that are computed together

typedef int64_t Size;
typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Whole __attribute__((vector_size(4 * LANES)));
typedef float AnyVector __attribute__((vector_size(4 * LANES), aligned(4)));

static inline Size parts(Size whole, Size part) { return (whole + part - 1) / part; }
static inline Vector load(const float* p) { return *(const AnyVector*)p; }
static inline void store(float* p, Vector v) { *(AnyVector*)p = v; }
static inline Vector all(float x) { return x - Vector{}; }
// Of a NaN and a number: the first of the two.
static inline Vector larger(Vector a, Vector b) { return a < b ? b : a; }
static inline Vector smaller(Vector a, Vector b) { return a > b ? b : a; }

// Is a lane of the result of a comparison true?
static inline bool any(Whole lanes) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)lanes) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)lanes) != 0;
#else
  return (lanes[0] | lanes[1] | lanes[2] | lanes[3]) != 0;
#endif
}

// The parts of 2^x: `scale` multiplies by 2^whole, for a whole number near x, what `power` makes of the rest.
// A Steep is a factor: the parts of 2^(x * factor), where that is 126 at most, take no instruction more than those of 2^x.
#if defined(__AVX512F__)
struct Steep {
  Vector factor;
  explicit Steep(float by) : factor(all(by)) {}
};
struct Split {  // the whole number below: the instructions round down, and know zero and infinity
  Vector x, rest;
  explicit Split(Vector given) : x(given), rest((Vector)_mm512_maskz_reduce_ps(0xffff, (__m512)given, 1)) {}
  Split(Vector given, const Steep& steep) : Split(given * steep.factor) {}
  Vector scale(Vector p) const { return (Vector)_mm512_maskz_scalef_ps(0xffff, (__m512)p, (__m512)x); }
  static constexpr float POWER[] = {1.f, 6.93151295e-1f, 2.40164444e-1f, 5.57999127e-2f, 9.01703071e-3f, 1.86713005e-3f};
};
#else
struct Steep {
  Vector factor, least;
  explicit Steep(float by) : factor(all(by)), least(all(-126.f / by)) {}
};
struct Split {  // the nearest whole number: a number this large has it in its last bits
  static constexpr float LARGE = 12582912.f;
  Vector shifted, rest;
  explicit Split(Vector x) {
    x = smaller(larger(x, all(-126.f)), all(126.f));
    shifted = x + LARGE;
    rest = x - (shifted - LARGE);
  }
  Split(Vector x, const Steep& steep) {
    x = larger(x, steep.least);
    shifted = x * steep.factor + LARGE;
    rest = x * steep.factor - (shifted - LARGE);
  }
  Vector scale(Vector p) const { return (Vector)((Whole)p + ((Whole)shifted << 23)); }
  static constexpr float POWER[] = {1.f, 6.9314700e-1f, 2.4022242e-1f, 5.5507336e-2f, 9.6715130e-3f, 1.3264726e-3f};
};
#endif

// 2^x with a relative error of 1e-7. NaN stays NaN.
static inline Vector exp2(Split split) {
  const Vector r = split.rest;
  Vector p = all(Split::POWER[5]);
  p = p * r + Split::POWER[4];
  p = p * r + Split::POWER[3];
  p = p * r + Split::POWER[2];
  p = p * r + Split::POWER[1];
  p = p * r + Split::POWER[0];
  return split.scale(p);
}

static inline Vector exp2(Vector x) { return exp2(Split(x)); }

constexpr float LOG2E = 1.44269504f;

static inline Vector silu(Vector x) { return x / (exp2(x * -LOG2E) + 1.f); }

// the approximation of GELU by tanh (arXiv:1606.08415), written as x times a logistic function
static inline Vector gelu_tanh(Vector x) { return x / (exp2((x + x * x * x * 0.044715f) * (-1.5957691f * LOG2E)) + 1.f); }

// x times the normal distribution function, by a rational approximation of erfc with an absolute error of 1.5e-7
// (Abramowitz and Stegun, 7.1.26).
static inline Vector gelu(Vector x) {
  const Vector z = (x < 0.f ? -x : x) * 0.70710678f;
  const Vector t = all(1.f) / (z * 0.3275911f + 1.f);
  Vector p = all(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const Vector tail = p * t * exp2(z * z * -LOG2E) * 0.5f;
  return x * (x < 0.f ? tail : 1.f - tail);
}

#if defined(__AVX512F__)
static const Whole FIRST_HALVES = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
#elif defined(__AVX2__)
static const Whole FIRST_HALVES = {0, 8, 1, 9, 2, 10, 3, 11};
#else
static const Whole FIRST_HALVES = {0, 4, 1, 5};
#endif

// A block of LANES x LANES floats, transposed while it is copied: rows that are half a block apart are interleaved,
// as often as it takes until each row has become a column.
static inline void transpose(const float* from, Size from_step, float* to, Size to_step, Vector scale) {
  Vector rows[LANES], next[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) rows[i] = load(from + i * from_step) * scale;
#pragma GCC unroll 4
  for (int size = 1; size < LANES; size *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES / 2; i++) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + LANES / 2], FIRST_HALVES);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + LANES / 2], FIRST_HALVES + LANES / 2);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) store(to + i * to_step, rows[i]);
}

// Memory that a thread keeps from call to call.
struct Scratch {
  float* memory = nullptr;
  Size room = 0;
  ~Scratch() { free(memory); }
  float* get(Size floats) {
    if (floats > room) {
      free(memory);
      memory = (float*)aligned_alloc(4096, (floats * sizeof(float) + 4095) / 4096 * 4096);
      room = memory ? floats : 0;
    }
    return memory;
  }
};
