// softmax(scale Q K') V without the matrix of scores. Queries are the lanes: a panel of QUERIES of them is transposed once,
// the scores of a block of keys are made as [key][query], which is how the second product reads them, and maximum, power
// and sum never cross lanes. Keys and values of a head are copied once into groups of KEYS, so that both products walk
// memory in order. Each block is summed from zero: one long chain of additions would double the rounding error.
#pragma once
#include <algorithm>
#include "numbers.h"
#include "threads.h"

struct Attention {
  const float *q, *k, *v, *key_bias;  // key_bias: added to the scores of a key for all queries of an image, or null
  float* out;
  Size batch, heads, queries, keys, width;
  Size q_row, k_row, v_row, out_row, q_image, k_image, v_image, out_image;  // steps in floats; a head begins at head * width
  float scale;
};

constexpr Size KEY_BLOCK = 128;

// sum[i] += rows[step][i] * panel[step] for all steps: COUNT numbers of a row, each times the same queries
template <class Numbers, int COUNT, int VECTORS>
static inline __attribute__((always_inline)) void add_products(const float* rows, const float* panel, Size steps, Vector (&sum)[COUNT][VECTORS]) {
#pragma GCC unroll 4
  for (Size step = 0; step < steps; step++) {
    Vector of_panel[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) of_panel[v] = load(panel + step * QUERIES + v * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < COUNT; i++)
#pragma GCC unroll 3
      for (int v = 0; v < VECTORS; v++) sum[i][v] = Numbers::add(sum[i][v], Numbers::spread(rows + step * KEYS + i), of_panel[v]);
  }
}

// What is known of a panel's queries while its keys are gone through: 2^((score - reference) * steep) are the weights. The
// reference of a query is a score, the highest of its first keys, and stays until one is beyond the limit: nothing has to
// be corrected in between, and scores become weights while they are in registers. Scores are summed from zero and only
// then compared, so that equal ones are equal however large they are; what is multiplied is their difference.
template <int VECTORS>
struct Running {
  Vector reference[VECTORS], limit[VECTORS], highest[VECTORS], total[VECTORS], sum[VECTORS];
  float scale;  // of the products, where a bias is added to them; without one, scores are the products themselves
  Steep steep;  // from differences of scores to powers of two
  bool fresh = true, settled = false;  // no key was seen yet; the references were just raised to the next keys
};

constexpr float MOST = 8, UNSEEN = -__builtin_inff();  // UNSEEN: the limit of a query that has seen no key yet

// The highest score is the reference of the queries for which it is beyond the limit.
template <int VECTORS>
static inline void refer(Running<VECTORS>& run, int v) {
  const Whole above = run.highest[v] > run.limit[v];
  run.reference[v] = above ? run.highest[v] : run.reference[v];
  run.limit[v] = above ? run.highest[v] + MOST / run.steep.factor : run.limit[v];
}

// The weights of COUNT keys; false, and nothing written, where a reference has to be raised before. Once it
// was, nothing is asked: whatever the scores are, each second call goes on.
template <class Numbers, int COUNT, int VECTORS>
static __attribute__((noinline)) bool weights(const float* keys, const float* queries, Size units, const float* bias, float* to, Running<VECTORS>& run) {
  Vector sum[COUNT][VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < COUNT; i++)
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) sum[i][v] = Vector{};
  add_products<Numbers>(keys, queries, units, sum);
  if (bias)
#pragma GCC unroll 8
    for (int i = 0; i < COUNT; i++)
#pragma GCC unroll 3
      for (int v = 0; v < VECTORS; v++) sum[i][v] = sum[i][v] * run.scale + bias[i];
  Whole above = {};
#pragma GCC unroll 3
  for (int v = 0; v < VECTORS; v++) {
    Vector highest = sum[0][v];
#pragma GCC unroll 8
    for (int i = 1; i < COUNT; i++) highest = larger(highest, sum[i][v]);
    above |= highest > run.limit[v];
    run.highest[v] = highest;
  }
  if (__builtin_expect(any(above), 0) && !run.settled) {
    if (!run.fresh) return false;
    for (int v = 0; v < VECTORS; v++) refer(run, v);
  }
  run.fresh = run.settled = false;
#pragma GCC unroll 3
  for (int v = 0; v < VECTORS; v++) {
    const Vector reference = run.reference[v];
    Vector total = run.sum[v];
#pragma GCC unroll 8
    for (int i = 0; i < COUNT; i += Numbers::PACKED) {
      Vector unit[Numbers::PACKED] = {};
#pragma GCC unroll 2
      for (int n = 0; n < Numbers::PACKED; n++)
        if (i + n < COUNT) unit[n] = Numbers::power(Split(sum[i + n][v] - reference, run.steep)), total += unit[n];
      store(to + i / Numbers::PACKED * QUERIES + v * LANES, Numbers::unit(unit));
    }
    run.sum[v] = total;
  }
  return true;
}

template <class Numbers, int VECTORS, int COUNT = KEYS>
static inline bool weights_of(int count, const float* keys, const float* queries, Size units, const float* bias, float* to, Running<VECTORS>& run) {
  if (count == COUNT) return weights<Numbers, COUNT, VECTORS>(keys, queries, units, bias, to, run);
  if constexpr (COUNT > 1) return weights_of<Numbers, VECTORS, COUNT - 1>(count, keys, queries, units, bias, to, run);
  return true;
}

// The references raised to the scores that were too high, and what was summed by the old ones made less.
template <int VECTORS>
static void raise(Running<VECTORS>& run, float* result, Size width) {
  for (int v = 0; v < VECTORS; v++) {
    const Vector old = run.reference[v];
    const Whole unseen = run.limit[v] == UNSEEN;
    refer(run, v);
    const Vector less = unseen ? Vector{} : exp2(Split(old - run.reference[v], run.steep));  // who had seen no key has summed nothing
    run.total[v] = run.total[v] * less;
    for (Size d = 0; d < width; d++) store(result + d * QUERIES + v * LANES, load(result + d * QUERIES + v * LANES) * less);
  }
  run.settled = true;
}

// KEYS dimensions of the result: what is there, and the values of a block by their weights
template <class Numbers, int VECTORS>
static __attribute__((noinline)) void weighted(const float* values, const float* weights, Size units, float* result) {
  Vector sum[KEYS][VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < KEYS; i++)
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) sum[i][v] = Vector{};
  add_products<Numbers>(values, weights, units, sum);
#pragma GCC unroll 8
  for (int i = 0; i < KEYS; i++)
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) {
      float* to = result + i * QUERIES + v * LANES;
      store(to, load(to) + sum[i][v]);
    }
}

static Size padded_keys(Size keys) { return (keys + KEYS - 1) / KEYS * KEYS; }
static Size padded_width(Size width) { return (width + LANES - 1) / LANES * LANES; }  // a multiple of KEYS too

// an even number of rows of QUERIES floats to units of rows, where they lie
template <class Numbers>
static inline void pack_rows(float* rows, Size count, int vectors) {
  for (Size i = 0; Numbers::PACKED > 1 && i < count; i += Numbers::PACKED)
    for (int v = 0; v < vectors; v++) {
      Vector unit[Numbers::PACKED];
      for (int n = 0; n < Numbers::PACKED; n++) unit[n] = load(rows + (i + n) * QUERIES + v * LANES);
      store(rows + i / Numbers::PACKED * QUERIES + v * LANES, Numbers::unit(unit));
    }
}

// keys to [key / KEYS][unit of dimensions][KEYS], values to [dimension / KEYS][unit of keys][KEYS]
template <class Numbers>
static void pack_head(const float* k, const float* v, Size k_row, Size v_row, Size keys, Size width, float* packed_k, float* packed_v) {
  const Size all_keys = padded_keys(keys), units = Numbers::units(width), wide = padded_width(width);
  static thread_local Scratch own;
  float* rows = own.get((Numbers::PACKED + 1) * wide);  // a key's dimensions; the values of a unit of keys
  for (Size key = 0; key < all_keys; key++) {
    float* to = packed_k + key / KEYS * KEYS * units + key % KEYS;
    if (key < keys) Numbers::gather(k + key * k_row, rows, width);
    else memset(rows, 0, sizeof(float) * units);
    for (Size d = 0; d < units; d++) memcpy(to + d * KEYS, rows + d, sizeof(float));
  }
  for (Size key = 0; key < all_keys; key += Numbers::PACKED) {
    float* values = rows + wide;
    for (int n = 0; n < Numbers::PACKED; n++) {
      if (key + n < keys) memcpy(values + n * wide, v + (key + n) * v_row, sizeof(float) * width);
      else memset(values + n * wide, 0, sizeof(float) * width);
    }
    Numbers::join(values, wide);
    for (Size d = 0; d < width; d += KEYS) memcpy(packed_v + (d / KEYS * (all_keys / Numbers::PACKED) + key / Numbers::PACKED) * KEYS, values + d, sizeof(float) * KEYS);
  }
}

// Up to VECTORS * LANES queries of one head.
template <class Numbers, int VECTORS>
static void attend(const Attention& a, const float* q, float* out, int count, const float* bias, const float* keys, const float* values, float* scratch) {
  const Size width = a.width, wide = padded_width(width), all_keys = padded_keys(a.keys), units = Numbers::units(width);
  float *queries = scratch, *result = queries + wide * QUERIES, *block = result + wide * QUERIES, *rows = block + KEY_BLOCK * QUERIES;
  if (count < VECTORS * LANES || wide > width) memset(rows, 0, sizeof(float) * VECTORS * LANES * wide);
  for (int i = 0; i < count; i++) memcpy(rows + i * wide, q + i * a.q_row, sizeof(float) * width);
  for (int v = 0; v < VECTORS; v++)
    for (Size d = 0; d < wide; d += LANES)
      transpose(rows + v * LANES * wide + d, wide, queries + d * QUERIES + v * LANES, QUERIES, all(a.scale < 0.f ? -1.f : 1.f));
  pack_rows<Numbers>(queries, wide, VECTORS);
  memset(result, 0, sizeof(float) * wide * QUERIES);
  const float scale = a.scale < 0.f ? -a.scale : a.scale;
  Running<VECTORS> run{.scale = scale, .steep = Steep(bias ? LOG2E : scale * LOG2E)};
  for (int v = 0; v < VECTORS; v++) run.reference[v] = run.total[v] = Vector{}, run.limit[v] = all(UNSEEN);
  for (Size start = 0, done = 0; start < a.keys; start += done) {
    const Size size = std::min(KEY_BLOCK, a.keys - start);
    for (int v = 0; v < VECTORS; v++) run.sum[v] = Vector{};
    for (done = 0; done < size; done = std::min(done + KEYS, size))
      if (!weights_of<Numbers, VECTORS>((int)std::min<Size>(KEYS, size - done), keys + (start + done) * units, queries, units, bias ? bias + start + done : nullptr,
                                        block + done / Numbers::PACKED * QUERIES, run))
        break;
    for (int v = 0; v < VECTORS; v++) run.total[v] += run.sum[v];
    for (Size d = 0; d < width; d += KEYS)
      weighted<Numbers, VECTORS>(values + (d / KEYS * Numbers::units(all_keys) + start / Numbers::PACKED) * KEYS, block, Numbers::units(done), result + d * QUERIES);
    if (done < size) raise(run, result, width);
  }
  for (int v = 0; v < VECTORS; v++) {
    const Vector share = run.total[v] < 1e-30f ? all(0.f) : all(1.f) / run.total[v];  // zeros where a query may see no key; NaN stays
    for (Size d = 0; d < wide; d++) store(result + d * QUERIES + v * LANES, load(result + d * QUERIES + v * LANES) * share);
    for (Size d = 0; d < wide; d += LANES) transpose(result + d * QUERIES + v * LANES, QUERIES, rows + v * LANES * wide + d, wide, all(1.f));
  }
  for (int i = 0; i < count; i++) memcpy(out + i * a.out_row, rows + i * wide, sizeof(float) * width);
}

template <class Numbers>
static void attention(const Attention& a, int threads) {
  const Size chunks = std::max<Size>(1, parts(a.queries, 8 * QUERIES)), chunk = parts(a.queries, chunks * QUERIES) * QUERIES, all_keys = padded_keys(a.keys), wide = padded_width(a.width);
  const Size per_head = all_keys * Numbers::units(a.width), heads = a.batch * a.heads;
  static thread_local Scratch shared;
  float* packed = shared.get(2 * per_head * heads);
  pool().share(heads, threads, [&](Size head) {
    const Size image = head / a.heads, at = head % a.heads * a.width;
    pack_head<Numbers>(a.k + image * a.k_image + at, a.v + image * a.v_image + at, a.k_row, a.v_row, a.keys, a.width, packed + 2 * head * per_head, packed + (2 * head + 1) * per_head);
  });
  pool().share(heads * chunks, threads, [&](Size item) {
    static thread_local Scratch own;
    float* scratch = own.get((3 * wide + KEY_BLOCK) * QUERIES);
    const Size head = item / chunks, image = head / a.heads, at = head % a.heads * a.width;
    const float *keys = packed + 2 * head * per_head, *values = keys + per_head, *bias = a.key_bias ? a.key_bias + image * a.keys : nullptr;
    const Size first = item % chunks * chunk, last = std::min(a.queries, first + chunk);
    for (Size i = first; i < last; i += QUERIES) {
      const int count = (int)std::min<Size>(QUERIES, last - i);
      const float* q = a.q + image * a.q_image + i * a.q_row + at;
      float* out = a.out + image * a.out_image + i * a.out_row + at;
      if (count > 2 * LANES) attend<Numbers, 3>(a, q, out, count, bias, keys, values, scratch);
      else if (count > LANES) attend<Numbers, 2>(a, q, out, count, bias, keys, values, scratch);
      else attend<Numbers, 1>(a, q, out, count, bias, keys, values, scratch);
    }
  });
}
