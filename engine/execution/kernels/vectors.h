/* Vectors of float32 on AVX-512, AVX2, NEON or none of these. See cpu_native.c. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 16
#define MAX_ROWS 12
#define ACCUMULATORS 24
#elif defined(__AVX2__)
#define WIDTH 8
#define MAX_ROWS 6
#define ACCUMULATORS 12
#else
#define WIDTH 4
#define MAX_ROWS 6
#define ACCUMULATORS 24
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")
#define PANEL 16 /* output columns that lie together in a packed weight */
#define PARTS (PANEL / WIDTH)

typedef float Vector __attribute__((vector_size(WIDTH * 4)));
typedef int32_t Integers __attribute__((vector_size(WIDTH * 4)));

#define UPPER_HALF ((int32_t)0xffff0000) /* of a float32: the bfloat16 that it begins with */

enum Kind { FLOAT32 = 0, FLOAT16 = 1, BFLOAT16 = 2, INT8 = 3 };

INLINE int64_t kind_bytes(enum Kind kind) { return kind == FLOAT32 ? 4 : kind == INT8 ? 1 : 2; }

INLINE Vector load(const float *from) {
    Vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, Vector v) { memcpy(to, &v, sizeof v); }

INLINE Vector splat(float x) { return x - (Vector){}; }

INLINE Vector fused(Vector a, Vector b, Vector c) { /* a·b + c, rounded once */
#if defined(__AVX512F__)
    return (Vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (Vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
    return (Vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

INLINE Vector choose(Integers mask, Vector a, Vector b) { /* lane by lane: mask ? a : b */
    return (Vector)((mask & (Integers)a) | (~mask & (Integers)b));
}

INLINE Vector larger(Vector a, Vector b) { return choose(a > b, a, b); }

INLINE float largest_lane(Vector v) {
    float best = v[0];
    for (int i = 1; i < WIDTH; i++)
        best = v[i] > best ? v[i] : best;
    return best;
}

INLINE float sum_of_lanes(Vector v) { /* always as the same tree */
    float lanes[WIDTH];
    store(lanes, v);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

INLINE Vector from_float16(const uint16_t *from) {
#if defined(__AVX512F__)
    return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__F16C__)
    return (Vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
    Vector v;
    _Float16 h[WIDTH];
    memcpy(h, from, sizeof h);
    for (int i = 0; i < WIDTH; i++)
        v[i] = (float)h[i];
    return v;
#endif
}

INLINE void to_float16(uint16_t *to, Vector v) { /* saturating: an infinity would poison the row */
    const Vector most = splat(65504.0f);
    v = choose(v > most, most, choose(v < -most, -most, v));
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
    for (int i = 0; i < WIDTH; i++) {
        _Float16 h = (_Float16)v[i];
        memcpy(to + i, &h, sizeof h);
    }
#endif
}

INLINE Vector load_kind(const void *base, int64_t index, enum Kind kind) { /* of a cache */
    return kind == FLOAT16 ? from_float16((const uint16_t *)base + index)
                           : load((const float *)base + index);
}

INLINE Vector load_some(const float *from, int64_t count) { /* the rest is zeros */
    if (count >= WIDTH)
        return load(from);
    float padded[WIDTH] = {0};
    if (count > 0)
        memcpy(padded, from, count * sizeof *from);
    return load(padded);
}

INLINE void store_some(float *to, Vector v, int64_t count) {
    if (count >= WIDTH) {
        store(to, v);
        return;
    }
    float padded[WIDTH];
    store(padded, v);
    memcpy(to, padded, count * sizeof *to);
}

INLINE Vector exponential(Vector x) { /* Cephes' expf, within 2 ulp; 0 below -87 */
    const Vector floor = splat(-87.0f), ceiling = splat(88.0f);
    const Integers vanishes = x < floor;
    x = choose(vanishes, floor, choose(x > ceiling, ceiling, x));
    const Vector magic = splat(12582912.0f); /* 1.5·2^23: adding it rounds to an integer */
    Vector n = fused(x, splat(1.44269504088896341f), magic) - magic;
    x = fused(n, splat(-0.693359375f), x);
    x = fused(n, splat(2.12194440e-4f), x);
    Vector y = splat(1.9875691500e-4f);
    y = fused(y, x, splat(1.3981999507e-3f));
    y = fused(y, x, splat(8.3334519073e-3f));
    y = fused(y, x, splat(4.1665795894e-2f));
    y = fused(y, x, splat(1.6666665459e-1f));
    y = fused(y, x, splat(5.0000001201e-1f));
    y = fused(y, x * x, x) + splat(1.0f);
    Integers exponent = __builtin_convertvector(n, Integers) << 23;
    y = (Vector)((Integers)y + exponent);
    return choose(vanishes, splat(0.0f), y);
}

/* Memory that grows as it is asked for, to be kept by a thread. */
struct Room {
    void *at;
    int64_t size;
};

static void *room_for(struct Room *room, int64_t size) {
    if (room->size < size) {
        free(room->at);
        room->at = aligned_alloc(64, (size + 63) / 64 * 64);
        room->size = size;
    }
    return room->at;
}
