// What a lane of 32 bits holds in a product: one float, or two bf16 whose products are both added to a float. Everything
// that multiplies is written once, for `Numbers`, and counts its depth in lanes ("units").
#pragma once
#include "vectors.h"

// Rows of a product's left side, `step` units apart.
struct Rows {
  const float* at;
  Size step;
};

struct FP32 {
  static constexpr int PACKED = 1;
  static Size units(Size depth) { return depth; }
  static inline Vector spread(const float* unit) { return all(*unit); }
  static inline __attribute__((always_inline)) Vector add(Vector sum, Vector a, Vector b) { return sum + a * b; }
  static void put(float* to, Vector v) { store(to, v); }
  static inline Vector unit(const Vector* one) { return *one; }
  static inline Vector power(Split split) { return exp2(split); }
  static void gather(const float* from, float* to, Size depth) { memcpy(to, from, sizeof(float) * depth); }
  static void join(float*, Size) {}
};

#if defined(__AVX512BF16__)
struct BF16 {
  static constexpr int PACKED = 2;
  static Size units(Size depth) { return (depth + 1) / 2; }
  static inline Vector spread(const float* unit) {  // as whole numbers: two bf16 are no float
    int32_t both;
    memcpy(&both, unit, sizeof both);
    return (Vector)_mm512_set1_epi32(both);
  }
  static inline __attribute__((always_inline)) Vector add(Vector sum, Vector a, Vector b) {
    return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
  static void put(float* to, Vector v) { _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh((__m512)v)); }
  // a lane: the number of `even` and that of `odd`
  static inline Vector pair(Vector even, Vector odd) {
    const __m512i ORDER = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (Vector)_mm512_permutexvar_epi16(ORDER, (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
  }
  static inline Vector unit(const Vector* two) { return pair(two[0], two[1]); }
  // 2^x with a relative error of 8e-5: bf16 is thirty times coarser
  static inline Vector power(Split split) {
    const Vector r = split.rest;
    return split.scale(((r * 0.0780245215f + 0.226067156f) * r + 0.695833564f) * r + 0.999925196f);
  }
  // `depth` floats side by side to pairs; an odd one is paired with zero
  static void gather(const float* from, float* to, Size depth) {
    Size i = 0;
    for (; i + 32 <= depth; i += 32) store(to + i / 2, (Vector)_mm512_cvtne2ps_pbh((__m512)load(from + i + 16), (__m512)load(from + i)));
    if (i == depth) return;
    float rest[32] = {}, pairs[16];
    memcpy(rest, from + i, sizeof(float) * (depth - i));
    store(pairs, (Vector)_mm512_cvtne2ps_pbh((__m512)load(rest + 16), (__m512)load(rest)));
    memcpy(to + i / 2, pairs, sizeof(float) * units(depth - i));
  }
  // two rows of `wide` floats, one behind the other, to one of pairs
  static void join(float* rows, Size wide) {
    for (Size d = 0; d < wide; d += LANES) store(rows + d, pair(load(rows + d), load(rows + wide + d)));
  }
};
#endif

// Do rows that are `step` floats apart share few lines of the first cache, whose sets repeat every 4 KiB?
static bool well_apart(Size step) {
  const Size beyond = step * (Size)sizeof(float) % 4096;
  return beyond >= 512 && beyond <= 3584 && beyond != 2048;
}

// Rows in units, side by side or where they are: copied, unless they are floats and none get into each other's way.
template <class Numbers>
static Rows gathered(const float* x, Size step, Size count, Size depth) {
  if (Numbers::PACKED == 1 && well_apart(step)) return {x, step};
  static thread_local Scratch own;
  const Size apart = (Numbers::units(depth) + 15) / 16 * 16 + 16;
  float* to = own.get(count * apart);
  for (Size i = 0; i < count; i++) Numbers::gather(x + i * step, to + i * apart, depth);
  return {to, apart};
}
