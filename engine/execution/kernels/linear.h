/* Linear layers over packed weights.

   Weights lie in panels of 16 columns, zero-padded at the end, so that a row tile reads them once and in
   order: [N/16][K/g][16][g], where g numbers take 32 bits: one float32, two bfloat16, four int8.
   out[m][n] = scale[n] · (sum over k, in order of k, as one chain of fused adds) + bias[n], or as exact a
   sum in tiles (tiles.h). */

struct Linear {
    const void *panels;
    const float *scale, *bias; /* a number a column, or none */
    int64_t depth, columns;
    int kind;
};

/* What a tile has summed up, to its place in the output: `width` columns, of which `columns` exist. */
static __attribute__((noinline)) void finish_tile(const struct Linear *l, const float *sums, int rows,
                                                  int width, int64_t column, float *out, int adds) {
    const int64_t columns = l->columns - column < width ? l->columns - column : width;
    for (int64_t n = 0; n < columns; n += WIDTH) {
        const int64_t left = columns - n;
        const Vector scale = l->scale ? load_some(l->scale + column + n, left) : splat(1.0f);
        const Vector bias = l->bias ? load_some(l->bias + column + n, left) : splat(0.0f);
        for (int m = 0; m < rows; m++) {
            float *to = out + m * l->columns + column + n;
            const Vector y = load(sums + m * width + n) * scale + bias;
            store_some(to, adds ? y + load_some(to, left) : y, left);
        }
    }
}

INLINE int64_t group_size(enum Kind kind) { return 4 / kind_bytes(kind); }

INLINE int64_t panel_bytes(int64_t depth, enum Kind kind) {
    return (depth + group_size(kind) - 1) / group_size(kind) * PANEL * 4;
}

/* Part i of the columns, number j of group `group`. */
INLINE Vector load_weights(const char *panel, int64_t group, int j, int i, enum Kind kind) {
    Integers all;
    memcpy(&all, panel + (group * PANEL + i * WIDTH) * 4, sizeof all);
    if (kind == BFLOAT16)
        return (Vector)(j ? all & UPPER_HALF : all << 16);
    if (kind == INT8)
        return __builtin_convertvector(all << (24 - 8 * j) >> 24, Vector);
    return (Vector)all;
}

/* The panels that come next: they are fetched from memory beside the arithmetic. */
struct Ahead {
    const char *at, *end;
};
#define LINE_BYTES 64
#define STEPS_A_LINE 4 /* whole groups; two tiles over some panels of bfloat16 fetch as many more */

INLINE void fetch_line(struct Ahead *ahead) {
    if (ahead->at < ahead->end) {
        __builtin_prefetch(ahead->at, 0, 2);
        ahead->at += LINE_BYTES;
    }
}

INLINE void sum_tile(const struct Linear *l, const float *x, const char *weight, enum Kind kind,
                     int rows, int panels, float *sums, struct Ahead *ahead) {
    Vector sum[MAX_ROWS][4][PARTS];
    UNROLL for (int m = 0; m < rows; m++)
        UNROLL for (int p = 0; p < panels; p++)
            UNROLL for (int i = 0; i < PARTS; i++)
                sum[m][p][i] = splat(0.0f);
    const int size = group_size(kind);
    const int64_t bytes = panel_bytes(l->depth, kind);
    for (int64_t next, first = 0; first < l->depth; first = next) {
        next = first + STEPS_A_LINE < l->depth ? first + STEPS_A_LINE : l->depth;
        fetch_line(ahead);
        for (int64_t k = first; k < next; k += size)
            UNROLL for (int j = 0; j < size; j++) {
                if (j && k + j == l->depth)
                    break;
                Vector w[4][PARTS];
                UNROLL for (int p = 0; p < panels; p++)
                    UNROLL for (int i = 0; i < PARTS; i++)
                        w[p][i] = load_weights(weight + p * bytes, k / size, j, i, kind);
                UNROLL for (int m = 0; m < rows; m++) {
                    const Vector factor = splat(x[m * l->depth + k + j]);
                    UNROLL for (int p = 0; p < panels; p++)
                        UNROLL for (int i = 0; i < PARTS; i++)
                            sum[m][p][i] = fused(factor, w[p][i], sum[m][p][i]);
                }
            }
    }
    UNROLL for (int m = 0; m < rows; m++)
        UNROLL for (int p = 0; p < panels; p++)
            UNROLL for (int i = 0; i < PARTS; i++)
                store(sums + (m * panels + p) * PANEL + i * WIDTH, sum[m][p][i]);
}

/* As many panels at once as the registers hold: few rows need the independent sums. */
#define PANELS_FOR(rows)                                                                           \
    (ACCUMULATORS / ((rows) * PARTS) >= 4 ? 4 : ACCUMULATORS / ((rows) * PARTS) >= 2 ? 2 : 1)
#define GROUP 4 /* panels that pass by a block of rows together */

/* `rows` of x times `panels` panels that begin with panel number `panel`, at `weight`. */
#define TILES(ROWS, KIND)                                                                          \
    static __attribute__((noinline)) void tiles_##KIND##_##ROWS(                                   \
        const struct Linear *l, const float *x, const char *weight, int64_t panel, int panels,     \
        float *out, int adds, struct Ahead *ahead) {                                               \
        float sums[ROWS * 4 * PANEL];                                                              \
        const int64_t bytes = panel_bytes(l->depth, KIND);                                         \
        int p = 0;                                                                                 \
        for (; p + PANELS_FOR(ROWS) <= panels; p += PANELS_FOR(ROWS)) {                            \
            sum_tile(l, x, weight + p * bytes, KIND, ROWS, PANELS_FOR(ROWS), sums, ahead);         \
            finish_tile(l, sums, ROWS, PANELS_FOR(ROWS) * PANEL, (panel + p) * PANEL, out, adds);  \
        }                                                                                          \
        for (; PANELS_FOR(ROWS) > 1 && p < panels; p++) {                                          \
            sum_tile(l, x, weight + p * bytes, KIND, ROWS, 1, sums, ahead);                        \
            finish_tile(l, sums, ROWS, PANEL, (panel + p) * PANEL, out, adds);                     \
        }                                                                                          \
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
EACH_ROWS(TILES, INT8)

typedef void (*Tiles)(const struct Linear *, const float *, const char *, int64_t, int, float *, int,
                      struct Ahead *);
#define NAME(ROWS, KIND) tiles_##KIND##_##ROWS,
static const Tiles all_tiles[][MAX_ROWS + 1] = {
    [FLOAT32] = {0, EACH_ROWS(NAME, FLOAT32)},
    [BFLOAT16] = {0, EACH_ROWS(NAME, BFLOAT16)},
    [INT8] = {0, EACH_ROWS(NAME, INT8)},
};

/* From so many rows on panels are made float32 once, not by each tile: a quarter to a half less time with
   16 registers, which a tile fills. With 32 it would be a quarter more at 24 to 32 rows. */
#if defined(__AVX512F__)
#define MANY_ROWS INT64_MAX
#else
#define MANY_ROWS (2 * MAX_ROWS)
#endif

INLINE void widen_panel(const char *panel, int64_t depth, enum Kind kind, float *to) {
    const int size = group_size(kind);
    for (int64_t k = 0; k < depth; k += size)
        UNROLL for (int j = 0; j < size; j++) {
            if (j && k + j == depth)
                break;
            UNROLL for (int i = 0; i < PARTS; i++)
                store(to + (k + j) * PANEL + i * WIDTH, load_weights(panel, k / size, j, i, kind));
        }
}

/* `count` panels as float32, in this thread's own memory, which the next call overwrites. */
static const char *as_float32(const struct Linear *l, const char *from, int count) {
    static __thread struct Room room;
    float *to = room_for(&room, count * panel_bytes(l->depth, FLOAT32));
    for (int p = 0; p < count; p++) {
        const char *panel = from + p * panel_bytes(l->depth, l->kind);
        if (l->kind == BFLOAT16)
            widen_panel(panel, l->depth, BFLOAT16, to + p * l->depth * PANEL);
        else
            widen_panel(panel, l->depth, INT8, to + p * l->depth * PANEL);
    }
    return (const char *)to;
}

#include "tiles.h"

/* out = x·W, or out + x·W where it `adds`. Each thread has panels of its own; no barrier after. */
static void linear_in_team(const struct Linear *l, const float *x, int64_t rows, float *out,
                           int adds) {
    const int64_t panels = (l->columns + PANEL - 1) / PANEL;
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t begin = panels * thread / threads, end = panels * (thread + 1) / threads;
    if (has_tiles(l)) {
        linear_in_tiles(l, x, rows, begin, end, out, adds);
        return;
    }
    /* Rows in blocks that stay in the second-level cache while all panels pass by. */
    int64_t block = 400000 / (l->depth * 4) / MAX_ROWS * MAX_ROWS;
    block = block < MAX_ROWS ? MAX_ROWS : block;
    for (int64_t first = 0; first < rows; first += block) {
        const int64_t last = first + block < rows ? first + block : rows;
        for (int64_t panel = begin; panel < end; panel += GROUP) {
            const int count = end - panel < GROUP ? end - panel : GROUP;
            const int64_t bytes = panel_bytes(l->depth, l->kind);
            const char *weight = (const char *)l->panels + panel * bytes;
            const int more = end - panel - count < GROUP ? end - panel - count : GROUP;
            struct Ahead ahead = {weight + count * bytes, weight + (count + more) * bytes};
            enum Kind kind = l->kind;
            if (kind != FLOAT32 && last - first >= MANY_ROWS) {
                weight = as_float32(l, weight, count);
                kind = FLOAT32;
            }
            for (int64_t m = first; m < last; m += MAX_ROWS) {
                const int64_t tile = last - m < MAX_ROWS ? last - m : MAX_ROWS;
                all_tiles[kind][tile](l, x + m * l->depth, weight, panel, count,
                                      out + m * l->columns, adds, &ahead);
            }
        }
    }
}
