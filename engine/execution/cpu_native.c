/* The CPU kernels: packed linear, paged attention, RMS norm, activations.

   One property rules this file: every output element is one fixed sequence of float32 operations,
   whatever else is in the batch, however the rows are tiled, and on any number of threads. So a
   token's logits depend on the tokens before it and on nothing else, and a request that moves to
   another engine goes on bit for bit. Hence: no -ffast-math, explicit fused multiply-adds, sums in
   one order, and no scalar tails beside vector code.

   Plain C with GCC's vector extensions; intrinsics only where those have no word for it. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
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
typedef uint16_t Halves __attribute__((vector_size(WIDTH * 2)));

enum Kind { FLOAT32 = 0, FLOAT16 = 1, BFLOAT16 = 2 };

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

INLINE Vector from_bfloat16(const uint16_t *from) {
    Halves h;
    memcpy(&h, from, sizeof h);
    return (Vector)(__builtin_convertvector(h, Integers) << 16);
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

INLINE Vector load_kind(const void *base, int64_t index, enum Kind kind) {
    if (kind == FLOAT32)
        return load((const float *)base + index);
    if (kind == FLOAT16)
        return from_float16((const uint16_t *)base + index);
    return from_bfloat16((const uint16_t *)base + index);
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

/* ── linear ─────────────────────────────────────────────────────────────────────────────────────

   Weights lie in panels [N/16][K][16], zero-padded at the end, so that a row tile reads them once
   and in order. out[m][n] = bias[n] + sum over k, in order of k, as one chain of fused adds. */

INLINE void linear_tile(const float *x, int64_t x_stride, const void *weight, enum Kind kind,
                        int64_t depth, float *out, int64_t out_stride, int rows, int panels,
                        int64_t columns, const float *bias) {
    Vector sum[MAX_ROWS][4][PARTS];
    UNROLL for (int m = 0; m < rows; m++)
        UNROLL for (int p = 0; p < panels; p++)
            UNROLL for (int i = 0; i < PARTS; i++)
                sum[m][p][i] = splat(0.0f);
    for (int64_t k = 0; k < depth; k++) {
        Vector w[4][PARTS];
        UNROLL for (int p = 0; p < panels; p++)
            UNROLL for (int i = 0; i < PARTS; i++)
                w[p][i] = load_kind(weight, (p * depth + k) * PANEL + i * WIDTH, kind);
        UNROLL for (int m = 0; m < rows; m++) {
            const Vector factor = splat(x[m * x_stride + k]);
            UNROLL for (int p = 0; p < panels; p++)
                UNROLL for (int i = 0; i < PARTS; i++)
                    sum[m][p][i] = fused(factor, w[p][i], sum[m][p][i]);
        }
    }
    if (columns >= panels * PANEL) {
        UNROLL for (int m = 0; m < rows; m++)
            UNROLL for (int p = 0; p < panels; p++)
                UNROLL for (int i = 0; i < PARTS; i++) {
                    const int at = p * PANEL + i * WIDTH;
                    Vector y = sum[m][p][i];
                    if (bias)
                        y += load(bias + at);
                    store(out + m * out_stride + at, y);
                }
        return;
    }
    float whole[MAX_ROWS][4 * PANEL];
    UNROLL for (int m = 0; m < rows; m++)
        UNROLL for (int p = 0; p < panels; p++)
            UNROLL for (int i = 0; i < PARTS; i++)
                store(whole[m] + p * PANEL + i * WIDTH, sum[m][p][i]);
    for (int m = 0; m < rows; m++)
        for (int64_t n = 0; n < columns; n++)
            out[m * out_stride + n] = bias ? whole[m][n] + bias[n] : whole[m][n];
}

/* As many panels at once as the registers hold: few rows need the independent sums. */
#define PANELS_FOR(rows)                                                                           \
    (ACCUMULATORS / ((rows) * PARTS) >= 4 ? 4 : ACCUMULATORS / ((rows) * PARTS) >= 2 ? 2 : 1)
#define GROUP 4 /* panels of one task */

#define TILES(ROWS, KIND)                                                                          \
    static __attribute__((noinline)) void tiles_##KIND##_##ROWS(                                   \
        const float *x, int64_t x_stride, const char *weight, int64_t panel_bytes, int64_t depth,  \
        float *out, int64_t out_stride, int panels, int64_t columns, const float *bias) {          \
        int p = 0;                                                                                 \
        for (; p + PANELS_FOR(ROWS) <= panels; p += PANELS_FOR(ROWS))                              \
            linear_tile(x, x_stride, weight + p * panel_bytes, KIND, depth, out + p * PANEL,       \
                        out_stride, ROWS, PANELS_FOR(ROWS), columns - p * PANEL,                   \
                        bias ? bias + p * PANEL : 0);                                              \
        for (; p < panels; p++)                                                                    \
            linear_tile(x, x_stride, weight + p * panel_bytes, KIND, depth, out + p * PANEL,       \
                        out_stride, ROWS, 1, columns - p * PANEL, bias ? bias + p * PANEL : 0);    \
    }

#if MAX_ROWS == 12
#define EACH_ROWS(DO, KIND)                                                                        \
    DO(1, KIND) DO(2, KIND) DO(3, KIND) DO(4, KIND) DO(5, KIND) DO(6, KIND) DO(7, KIND)            \
    DO(8, KIND) DO(9, KIND) DO(10, KIND) DO(11, KIND) DO(12, KIND)
#else
#define EACH_ROWS(DO, KIND)                                                                        \
    DO(1, KIND) DO(2, KIND) DO(3, KIND) DO(4, KIND) DO(5, KIND) DO(6, KIND)
#endif
EACH_ROWS(TILES, FLOAT32)
EACH_ROWS(TILES, BFLOAT16)

typedef void (*Tiles)(const float *, int64_t, const char *, int64_t, int64_t, float *, int64_t, int,
                      int64_t, const float *);
#define NAME(ROWS, KIND) tiles_##KIND##_##ROWS,
static const Tiles float32_tiles[] = {0, EACH_ROWS(NAME, FLOAT32)};
static const Tiles bfloat16_tiles[] = {0, EACH_ROWS(NAME, BFLOAT16)};

void linear(const float *x, int64_t rows, int64_t depth, const void *weight, int kind,
            int64_t columns, const float *bias, float *out, int threads) {
    const Tiles *tiles = kind == FLOAT32 ? float32_tiles : bfloat16_tiles;
    const int64_t panels = (columns + PANEL - 1) / PANEL;
    const int64_t panel_bytes = depth * PANEL * (kind == FLOAT32 ? 4 : 2);
    const int64_t groups = (panels + GROUP - 1) / GROUP;
    /* Rows in blocks that stay in the second-level cache while all panels pass by. */
    int64_t block = 400000 / (depth * 4) / MAX_ROWS * MAX_ROWS;
    block = block < MAX_ROWS ? MAX_ROWS : block;
#pragma omp parallel num_threads(threads)
    for (int64_t first = 0; first < rows; first += block) {
        const int64_t last = first + block < rows ? first + block : rows;
#pragma omp for schedule(static) nowait
        for (int64_t group = 0; group < groups; group++) {
            const int64_t p = group * GROUP;
            const int count = panels - p < GROUP ? panels - p : GROUP;
            for (int64_t m = first; m < last; m += MAX_ROWS) {
                const int64_t tile = last - m < MAX_ROWS ? last - m : MAX_ROWS;
                tiles[tile](x + m * depth, depth, (const char *)weight + p * panel_bytes,
                            panel_bytes, depth, out + m * columns + p * PANEL, columns, count,
                            columns - p * PANEL, bias ? bias + p * PANEL : 0);
            }
        }
    }
}

/* ── paged attention ────────────────────────────────────────────────────────────────────────────

   A tile is some query tokens of one sequence times the query heads that share a KV head. For each
   row of it, positions come in chunks of 64 counted from position 0, with a running maximum and sum
   from chunk to chunk: the same operations for a prompt's last token and for a decoded one. */

#define CHUNK 64
#define MAX_HEAD 256
#define TILE 12

struct Attention {
    const float *query, *key, *value; /* (token, head, lane) through strides */
    int64_t query_token_stride, query_head_stride, key_token_stride, key_head_stride,
        value_token_stride, value_head_stride;
    void *key_cache, *value_cache; /* (block, slot, kv head, lane) */
    const int32_t *query_start;    /* sequences + 1 */
    const int32_t *first_position; /* sequences */
    const int32_t *block_table;    /* all tables, one after another */
    const int32_t *table_start;    /* sequences */
    float *out;                    /* (token, head, lane) */
    int64_t sequences, heads, kv_heads, head_dim, block_size;
    float scale;
    int kind, threads;
};

INLINE int64_t cache_index(const struct Attention *a, int64_t sequence, int64_t position,
                           int64_t kv_head) {
    const int64_t block = a->block_table[a->table_start[sequence] + position / a->block_size];
    return ((block * a->block_size + position % a->block_size) * a->kv_heads + kv_head) *
           a->head_dim;
}

INLINE void store_kind(void *base, int64_t index, Vector v, enum Kind kind) {
    if (kind == FLOAT32)
        store((float *)base + index, v);
    else
        to_float16((uint16_t *)base + index, v);
}

static void write_cache(const struct Attention *a, int64_t sequence, int64_t token) {
    const int64_t position = a->first_position[sequence] + token - a->query_start[sequence];
    for (int64_t head = 0; head < a->kv_heads; head++) {
        const int64_t to = cache_index(a, sequence, position, head);
        const float *key = a->key + token * a->key_token_stride + head * a->key_head_stride;
        const float *value = a->value + token * a->value_token_stride + head * a->value_head_stride;
        for (int64_t d = 0; d < a->head_dim; d += WIDTH) {
            store_kind(a->key_cache, to + d, load(key + d), a->kind);
            store_kind(a->value_cache, to + d, load(value + d), a->kind);
        }
    }
}

/* The sums of WIDTH vectors' lanes, one in each lane, always as the same tree. */
#if WIDTH == 16
static const Integers low[] = {
    {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
    {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
    {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
    {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}};
static const Integers high[] = {
    {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31},
    {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31},
    {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
    {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31}};
#elif WIDTH == 8
static const Integers low[] = {
    {0, 8, 2, 10, 4, 12, 6, 14}, {0, 1, 8, 9, 4, 5, 12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}};
static const Integers high[] = {
    {1, 9, 3, 11, 5, 13, 7, 15}, {2, 3, 10, 11, 6, 7, 14, 15}, {4, 5, 6, 7, 12, 13, 14, 15}};
#else
static const Integers low[] = {{0, 4, 2, 6}, {0, 1, 4, 5}};
static const Integers high[] = {{1, 5, 3, 7}, {2, 3, 6, 7}};
#endif

INLINE Vector sums_of_lanes(Vector v[WIDTH]) {
    int level = 0;
    UNROLL for (int count = WIDTH / 2; count; count /= 2) {
        UNROLL for (int i = 0; i < count; i++)
            v[i] = __builtin_shuffle(v[2 * i], v[2 * i + 1], low[level]) +
                   __builtin_shuffle(v[2 * i], v[2 * i + 1], high[level]);
        level++;
    }
    return v[0];
}

INLINE void score_chunk(const float *query, const float *keys, int64_t dim, float *scores) {
    /* `keys` is WIDTH rows of float32; one score a lane. */
    Vector sum[WIDTH];
    UNROLL for (int j = 0; j < WIDTH; j++)
        sum[j] = splat(0.0f);
    for (int64_t d = 0; d < dim; d += WIDTH) {
        const Vector q = load(query + d);
        UNROLL for (int j = 0; j < WIDTH; j++)
            sum[j] = fused(q, load(keys + j * dim + d), sum[j]);
    }
    store(scores, sums_of_lanes(sum));
}

struct Tile {
    float query[TILE][MAX_HEAD], sum[TILE][MAX_HEAD];
    float weight[TILE][CHUNK];
    float keys[WIDTH * MAX_HEAD];
    float maximum[TILE], total[TILE];
    int64_t position[TILE]; /* of each row's query */
    int64_t row_index[CHUNK], next_index[CHUNK];
};

INLINE void weigh_row(struct Tile *t, int row, int64_t start, int64_t dim) {
    /* Scores of a chunk to softmax weights; rescales what earlier chunks gave. */
    float *weight = t->weight[row];
    const int64_t valid = t->position[row] + 1 - start;
    for (int64_t j = valid < 0 ? 0 : valid; j < CHUNK; j++)
        weight[j] = -INFINITY;
    if (valid <= 0) {
        memset(weight, 0, sizeof t->weight[row]);
        return;
    }
    Vector top = load(weight);
    for (int j = WIDTH; j < CHUNK; j += WIDTH)
        top = larger(top, load(weight + j));
    const float before = t->maximum[row], chunk_top = largest_lane(top);
    const float now = chunk_top > before ? chunk_top : before;
    const float rescale = exponential(splat(before - now))[0];
    Vector total = splat(0.0f);
    for (int j = 0; j < CHUNK; j += WIDTH) {
        const Vector e = exponential(load(weight + j) - splat(now));
        store(weight + j, e);
        total += e;
    }
    t->maximum[row] = now;
    t->total[row] = __builtin_fmaf(t->total[row], rescale, sum_of_lanes(total));
    for (int64_t d = 0; d < dim; d += WIDTH)
        store(t->sum[row] + d, load(t->sum[row] + d) * splat(rescale));
}

#define LANES_AT_ONCE (MAX_ROWS == 12 || WIDTH == 4 ? 4 : 2) /* vectors of a value, in registers */

INLINE void add_values_at(struct Tile *t, const void *values, enum Kind kind, int64_t count,
                          int first, int rows, int64_t lane, int vectors) {
    Vector sum[4][LANES_AT_ONCE];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int i = 0; i < vectors; i++)
            sum[r][i] = load(t->sum[first + r] + lane + i * WIDTH);
    for (int64_t j = 0; j < count; j++) {
        Vector v[LANES_AT_ONCE];
        UNROLL for (int i = 0; i < vectors; i++)
            v[i] = load_kind(values, t->row_index[j] + lane + i * WIDTH, kind);
        UNROLL for (int r = 0; r < rows; r++) {
            const Vector weight = splat(t->weight[first + r][j]);
            UNROLL for (int i = 0; i < vectors; i++)
                sum[r][i] = fused(weight, v[i], sum[r][i]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int i = 0; i < vectors; i++)
            store(t->sum[first + r] + lane + i * WIDTH, sum[r][i]);
}

INLINE void add_values(struct Tile *t, const void *values, enum Kind kind, int64_t count,
                       int64_t dim, int first, int rows) {
    int64_t lane = 0;
    for (; lane + LANES_AT_ONCE * WIDTH <= dim; lane += LANES_AT_ONCE * WIDTH)
        add_values_at(t, values, kind, count, first, rows, lane, LANES_AT_ONCE);
    for (; lane < dim; lane += WIDTH)
        add_values_at(t, values, kind, count, first, rows, lane, 1);
}

INLINE void find_rows(const struct Attention *a, int64_t *row_index, int64_t sequence,
                      int64_t kv_head, int64_t start, int64_t count, enum Kind kind) {
    /* Where each position's row lies. They are scattered, so memory is asked for them early. */
    const int64_t row = a->kv_heads * a->head_dim, bytes = kind == FLOAT32 ? 4 : 2;
    const int32_t *block = a->block_table + a->table_start[sequence] + start / a->block_size;
    int64_t slot = start % a->block_size;
    for (int64_t j = 0; j < count; j++) {
        row_index[j] = (*block * a->block_size + slot) * row + kv_head * a->head_dim;
        for (int64_t byte = 0; byte < a->head_dim * bytes; byte += 64) {
            __builtin_prefetch((const char *)a->key_cache + row_index[j] * bytes + byte);
            __builtin_prefetch((const char *)a->value_cache + row_index[j] * bytes + byte);
        }
        if (++slot == a->block_size) {
            slot = 0;
            block++;
        }
    }
}

INLINE void attend_chunk(const struct Attention *a, struct Tile *t, int64_t start, int64_t count,
                         int rows, int64_t dim, enum Kind kind) {
    for (int64_t j = 0; j < count; j += WIDTH) {
        for (int64_t i = 0; i < WIDTH; i++)
            for (int64_t d = 0; d < dim; d += WIDTH)
                store(t->keys + i * dim + d,
                      j + i < count ? load_kind(a->key_cache, t->row_index[j + i] + d, kind)
                                    : splat(0.0f));
        for (int r = 0; r < rows; r++)
            score_chunk(t->query[r], t->keys, dim, t->weight[r] + j);
    }
    for (int r = 0; r < rows; r++)
        weigh_row(t, r, start, dim);
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        add_values(t, a->value_cache, kind, count, dim, r, 4);
    if (rows - r == 3)
        add_values(t, a->value_cache, kind, count, dim, r, 3);
    else if (rows - r == 2)
        add_values(t, a->value_cache, kind, count, dim, r, 2);
    else if (rows - r == 1)
        add_values(t, a->value_cache, kind, count, dim, r, 1);
}

INLINE void attend_tile(const struct Attention *a, int64_t sequence, int64_t kv_head,
                        int64_t first_token, int64_t tokens, int64_t first_head, int64_t heads,
                        int64_t dim, enum Kind kind) {
    struct Tile t;
    const int rows = tokens * heads;
    for (int r = 0; r < rows; r++) {
        const int64_t token = first_token + r / heads, head = first_head + r % heads;
        const float *query =
            a->query + token * a->query_token_stride + head * a->query_head_stride;
        for (int64_t d = 0; d < dim; d += WIDTH) {
            store(t.query[r] + d, load(query + d) * splat(a->scale));
            store(t.sum[r] + d, splat(0.0f));
        }
        t.position[r] = a->first_position[sequence] + token - a->query_start[sequence];
        t.maximum[r] = -INFINITY;
        t.total[r] = 0.0f;
    }
    const int64_t context =
        a->first_position[sequence] + first_token + tokens - a->query_start[sequence];
    int64_t count = context < CHUNK ? context : CHUNK;
    find_rows(a, t.next_index, sequence, kv_head, 0, count, kind);
    for (int64_t start = 0; start < context; start += CHUNK) {
        const int64_t left = context - start - count, next = left < CHUNK ? left : CHUNK;
        memcpy(t.row_index, t.next_index, sizeof t.row_index);
        find_rows(a, t.next_index, sequence, kv_head, start + count, next, kind);
        attend_chunk(a, &t, start, count, rows, dim, kind);
        count = next;
    }
    for (int r = 0; r < rows; r++) {
        const int64_t token = first_token + r / heads, head = first_head + r % heads;
        float *out = a->out + (token * a->heads + head) * dim;
        for (int64_t d = 0; d < dim; d += WIDTH)
            store(out + d, load(t.sum[r] + d) / splat(t.total[r]));
    }
}

static void attend(const struct Attention *a, int64_t sequence, int64_t kv_head, int64_t token,
                   int64_t tokens, int64_t head, int64_t heads) {
#define WITH(DIM, KIND) attend_tile(a, sequence, kv_head, token, tokens, head, heads, DIM, KIND)
    if (a->kind == FLOAT16 && a->head_dim == 64)
        WITH(64, FLOAT16);
    else if (a->kind == FLOAT16 && a->head_dim == 128)
        WITH(128, FLOAT16);
    else if (a->kind == FLOAT16)
        WITH(a->head_dim, FLOAT16);
    else
        WITH(a->head_dim, FLOAT32);
#undef WITH
}

void paged_attention(const struct Attention *a) {
    const int64_t group = a->heads / a->kv_heads;
    const int64_t tile_heads = group < TILE ? group : TILE;
    const int64_t tile_tokens = TILE / tile_heads;
#pragma omp parallel num_threads(a->threads)
    {
        for (int64_t s = 0; s < a->sequences; s++) {
#pragma omp for schedule(static) nowait
            for (int64_t token = a->query_start[s]; token < a->query_start[s + 1]; token++)
                write_cache(a, s, token);
        }
#pragma omp barrier
        for (int64_t s = 0; s < a->sequences; s++) {
            const int64_t tokens = a->query_start[s + 1] - a->query_start[s];
            const int64_t tiles = (tokens + tile_tokens - 1) / tile_tokens;
#pragma omp for collapse(2) schedule(dynamic) nowait
            for (int64_t kv_head = 0; kv_head < a->kv_heads; kv_head++)
                for (int64_t tile = 0; tile < tiles; tile++) {
                    const int64_t done = tile * tile_tokens, left = tokens - done;
                    for (int64_t head = 0; head < group; head += tile_heads)
                        attend(a, s, kv_head, a->query_start[s] + done,
                               left < tile_tokens ? left : tile_tokens, kv_head * group + head,
                               group - head < tile_heads ? group - head : tile_heads);
                }
        }
    }
}

/* ── row by row ─────────────────────────────────────────────────────────────────────────────── */

INLINE Vector load_some(const float *from, int64_t count) {
    if (count >= WIDTH)
        return load(from);
    float padded[WIDTH] = {0};
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

void rms_norm(const float *x, int64_t rows, int64_t size, const float *weight, float epsilon,
              float *out, int threads) {
    /* out = x / sqrt(mean(x²) + epsilon) · weight */
#pragma omp parallel for schedule(static) num_threads(threads) if (rows > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *from = x + row * size;
        float *to = out + row * size;
        Vector squares = splat(0.0f);
        for (int64_t i = 0; i < size; i += WIDTH) {
            const Vector v = load_some(from + i, size - i);
            squares = fused(v, v, squares);
        }
        const Vector factor = splat(1.0f / sqrtf(sum_of_lanes(squares) / size + epsilon));
        for (int64_t i = 0; i < size; i += WIDTH)
            store_some(to + i,
                       load_some(from + i, size - i) * factor * load_some(weight + i, size - i),
                       size - i);
    }
}

enum Activation { SILU = 0, GELU_TANH = 1, GELU = 2 };

INLINE Vector activated(Vector x, enum Activation activation) {
    if (activation == GELU) {
        for (int i = 0; i < WIDTH; i++)
            x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
        return x;
    }
    Vector z = x; /* the others are x / (1 + exp(-z)) */
    if (activation == GELU_TANH)
        z = splat(1.5957691216f) * fused(splat(0.044715f) * x * x, x, x);
    return x / (splat(1.0f) + exponential(-z));
}

void activate(const float *x, int64_t count, int activation, float *out) {
    for (int64_t i = 0; i < count; i += WIDTH)
        store_some(out + i, activated(load_some(x + i, count - i), activation), count - i);
}

void gated_activation(const float *gate_up, int64_t rows, int64_t size, int activation, float *out,
                      int threads) {
    /* gate_up is (rows, 2·size): out = activation(gate) · up. */
#pragma omp parallel for schedule(static) num_threads(threads) if (rows > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *gate = gate_up + row * 2 * size, *up = gate + size;
        for (int64_t i = 0; i < size; i += WIDTH) {
            const Vector y = activated(load_some(gate + i, size - i), activation);
            store_some(out + row * size + i, y * load_some(up + i, size - i), size - i);
        }
    }
}
