/* Linear layers on AMX, where the processor has it, as exact as in float32 vectors.

   Tiles multiply bfloat16 and add up float32, or bytes and add up integers. A float32 input is the sum of
   three bfloat16, each of which has 8 of its bits; in fixed point, relative to the largest of its row, it is
   the sum of three bytes. So each input takes three products, of which the exact sum is no further from the
   truth than that of float32, and which take a fifth of its time.

   out[m][n] is a sum in order of k, of what comes of one tile's depth at once, or of integers in any order:
   the same whatever the other rows are. */

#if defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__AVX512BW__)
#include <sys/syscall.h>
#include <unistd.h>

#define TILE_ROWS 16
#define TILE_BYTES 1024 /* 16 rows of 64 bytes */
#define PARTS_OF_INPUT 3
#define CACHED_BYTES 800000 /* of split rows, which stay in the second-level cache */
#define TILES_AHEAD 3       /* are asked for from memory, before they are multiplied */
#define FENCE() __asm__ volatile("" ::: "memory") /* the intrinsics hide what they read and write */

typedef uint16_t Words __attribute__((vector_size(64)));

static int tiles_are_allowed;

/* The kernel saves the registers of tiles only for who has asked for them. */
__attribute__((constructor)) static void ask_for_tiles(void) {
    const long request_permission = 0x1023, tile_data = 18;
    tiles_are_allowed = !syscall(SYS_arch_prctl, request_permission, tile_data);
}

INLINE int64_t tile_depth(const struct Linear *l) { return 64 / kind_bytes(l->kind); }

static int has_tiles(const struct Linear *l) {
    return tiles_are_allowed && l->kind != FLOAT32 && l->depth % tile_depth(l) == 0;
}

struct TileShapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void configure_tiles(void) {
    struct TileShapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.row_bytes[i] = 64;
        shapes.rows[i] = TILE_ROWS;
    }
    _tile_loadconfig(&shapes);
}

/* Tile `b` of each panel into the cache; those after the last one are of the next panels. */
INLINE void ask_for(const char *weight, int64_t tiles, int64_t b, int panels) {
    if (b >= tiles)
        b += (panels - 1) * tiles;
    UNROLL for (int p = 0; p < panels; p++)
        UNROLL for (int byte = 0; byte < TILE_BYTES; byte += 64)
            __builtin_prefetch(weight + (p * tiles + b) * TILE_BYTES + byte);
}

/* ── bfloat16 ── */

/* The upper halves of two vectors' numbers: bfloat16, cut off. */
INLINE Words upper_halves(Vector first, Vector second) {
    static const Words odd = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                              33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return __builtin_shuffle((Words)first, (Words)second, odd);
}

INLINE Vector lower_part(Vector x) { return x - (Vector)((Integers)x & UPPER_HALF); }

/* A row of float32 as row m of its tiles: [depth / 32][part][16][32]. */
static void split_row(const float *x, int64_t depth, char *row_of_tiles) {
    for (int64_t k = 0; k < depth; k += 2 * WIDTH) {
        Vector first = load(x + k), second = load(x + k + WIDTH);
        UNROLL for (int part = 0; part < PARTS_OF_INPUT; part++) {
            const Words both = upper_halves(first, second);
            memcpy(row_of_tiles, &both, sizeof both);
            row_of_tiles += TILE_BYTES;
            first = lower_part(first);
            second = lower_part(second);
        }
    }
}

/* One or two tiles of rows times one or two panels: sums of 16 or 32 rows and columns. */
INLINE void multiply_bfloat16(const char *inputs, const char *weight, int64_t tiles, int is_first,
                              int row_tiles, int panels, float *sums) {
    const char *below = inputs + tiles * PARTS_OF_INPUT * TILE_BYTES;
    const int row_bytes = panels * PANEL * sizeof *sums;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t b = 0; b < tiles; b++) {
        if (is_first) /* the processor's own foresight is not enough beside the products */
            ask_for(weight, tiles, b + TILES_AHEAD, panels);
        _tile_loadd(6, weight + b * TILE_BYTES, 64);
        if (panels == 2)
            _tile_loadd(7, weight + (tiles + b) * TILE_BYTES, 64);
        UNROLL for (int part = PARTS_OF_INPUT - 1; part >= 0; part--) {
            _tile_loadd(4, inputs + (b * PARTS_OF_INPUT + part) * TILE_BYTES, 64);
            _tile_dpbf16ps(0, 4, 6);
            if (panels == 2)
                _tile_dpbf16ps(1, 4, 7);
            if (row_tiles == 2) {
                _tile_loadd(5, below + (b * PARTS_OF_INPUT + part) * TILE_BYTES, 64);
                _tile_dpbf16ps(2, 5, 6);
                if (panels == 2)
                    _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    _tile_stored(0, sums, row_bytes);
    if (panels == 2)
        _tile_stored(1, sums + PANEL, row_bytes);
    if (row_tiles == 2) {
        _tile_stored(2, sums + TILE_ROWS * panels * PANEL, row_bytes);
        if (panels == 2)
            _tile_stored(3, sums + TILE_ROWS * panels * PANEL + PANEL, row_bytes);
    }
}

/* ── int8 ── */

#define LARGEST_FIXED 8323072.0f /* 0x7f0000: three signed bytes hold it, however it is rounded */

/* A row of float32 in fixed point as row m of its tiles, [depth / 64][part][16][64], the lowest byte first;
   what is to be multiplied with its sums. */
static float fix_row(const float *x, int64_t depth, char *row_of_tiles) {
    Integers top = {}; /* as integers, magnitudes have the same order, and NaN is the largest */
    for (int64_t k = 0; k < depth; k += WIDTH) {
        const Integers magnitude = (Integers)load(x + k) & 0x7fffffff;
        const Integers is_larger = magnitude > top;
        top = (is_larger & magnitude) | (~is_larger & top);
    }
    for (int i = 1; i < WIDTH; i++)
        top[0] = top[i] > top[0] ? top[i] : top[0];
    const float largest = ((Vector)top)[0];
    const Vector factor = splat(largest > 0.0f ? LARGEST_FIXED / largest : 0.0f);
    for (int64_t k = 0; k < depth; k += WIDTH) {
        Integers fixed = (Integers)_mm512_cvtps_epi32((__m512)(load(x + k) * factor));
        char *to = row_of_tiles + k / 64 * PARTS_OF_INPUT * TILE_BYTES + k % 64;
        UNROLL for (int part = 0; part < PARTS_OF_INPUT; part++) {
            const Integers low = fixed << 24 >> 24;
            const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)low);
            memcpy(to + part * TILE_BYTES, &bytes, sizeof bytes);
            fixed = (fixed - low) >> 8;
        }
    }
    return largest / LARGEST_FIXED;
}

/* One tile of rows times one or two panels: integer sums of each part, [part][panel][16][16]. */
INLINE void multiply_bytes(const char *inputs, const char *weight, int64_t tiles, int is_first,
                           int panels, int32_t *sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int64_t b = 0; b < tiles; b++) {
        const char *parts = inputs + b * PARTS_OF_INPUT * TILE_BYTES;
        if (is_first)
            ask_for(weight, tiles, b + TILES_AHEAD, panels);
        _tile_loadd(7, weight + b * TILE_BYTES, 64);
        _tile_loadd(6, parts, 64);
        _tile_dpbssd(0, 6, 7);
        _tile_loadd(6, parts + TILE_BYTES, 64);
        _tile_dpbssd(2, 6, 7);
        _tile_loadd(6, parts + 2 * TILE_BYTES, 64);
        _tile_dpbssd(4, 6, 7);
        if (panels == 2) {
            _tile_loadd(7, weight + (tiles + b) * TILE_BYTES, 64);
            _tile_dpbssd(5, 6, 7);
            _tile_loadd(6, parts + TILE_BYTES, 64);
            _tile_dpbssd(3, 6, 7);
            _tile_loadd(6, parts, 64);
            _tile_dpbssd(1, 6, 7);
        }
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 2 * 256, 64);
    _tile_stored(3, sums + 3 * 256, 64);
    _tile_stored(4, sums + 4 * 256, 64);
    _tile_stored(5, sums + 5 * 256, 64);
}

/* Integer sums of the parts to float32, [rows][panel][16]. */
static void join_parts(const int32_t *of_parts, const float *row_scale, int rows, int panels,
                       float *sums) {
    for (int m = 0; m < rows; m++)
        for (int p = 0; p < panels; p++) {
            Vector part[PARTS_OF_INPUT];
            UNROLL for (int i = 0; i < PARTS_OF_INPUT; i++) {
                Integers sum;
                memcpy(&sum, of_parts + ((2 * i + p) * TILE_ROWS + m) * PANEL, sizeof sum);
                part[i] = __builtin_convertvector(sum, Vector);
            }
            const Vector upper = fused(part[2], splat(65536.0f), part[1] * splat(256.0f));
            store(sums + (m * panels + p) * PANEL, (upper + part[0]) * splat(row_scale[m]));
        }
}

/* ── both ── */

struct TiledRows {
    char *tiles;      /* [rows / 16][tile of the depth][part][16][64 bytes] */
    float *row_scale; /* of int8 */
    int64_t rows;
};

static void tile_rows(const struct Linear *l, const float *x, struct TiledRows *to) {
    const int64_t row_tile_bytes = l->depth / tile_depth(l) * PARTS_OF_INPUT * TILE_BYTES;
    for (int64_t m = 0; m < to->rows; m++) {
        char *row = to->tiles + m / TILE_ROWS * row_tile_bytes + m % TILE_ROWS * 64;
        if (l->kind == INT8)
            to->row_scale[m] = fix_row(x + m * l->depth, l->depth, row);
        else
            split_row(x + m * l->depth, l->depth, row);
    }
}

/* One or two panels for some rows. */
INLINE void panels_in_tiles(const struct Linear *l, const struct TiledRows *x, int64_t panel, int panels,
                            float *out, int adds) {
    float sums[2 * TILE_ROWS * 2 * PANEL];
    int32_t of_parts[PARTS_OF_INPUT * 2 * TILE_ROWS * PANEL];
    const int64_t tiles = l->depth / tile_depth(l);
    const char *weight = (const char *)l->panels + panel * panel_bytes(l->depth, l->kind);
    const int64_t step = l->kind == INT8 ? TILE_ROWS : 2 * TILE_ROWS;
    for (int64_t m = 0; m < x->rows; m += step) {
        const int64_t rows = x->rows - m < step ? x->rows - m : step;
        const char *inputs = x->tiles + m / TILE_ROWS * tiles * PARTS_OF_INPUT * TILE_BYTES;
        FENCE();
        if (l->kind == INT8)
            multiply_bytes(inputs, weight, tiles, !m, panels, of_parts);
        else if (rows > TILE_ROWS)
            multiply_bfloat16(inputs, weight, tiles, !m, 2, panels, sums);
        else
            multiply_bfloat16(inputs, weight, tiles, !m, 1, panels, sums);
        FENCE();
        if (l->kind == INT8)
            join_parts(of_parts, x->row_scale + m, rows, panels, sums);
        finish_tile(l, sums, rows, panels * PANEL, panel * PANEL, out + m * l->columns, adds);
    }
}

/* Panels from `begin` to `end`, for all rows in blocks. */
static void linear_in_tiles(const struct Linear *l, const float *x, int64_t rows, int64_t begin,
                            int64_t end, float *out, int adds) {
    static __thread struct Room tiles_room, scale_room;
    const int64_t row_bytes = l->depth * kind_bytes(l->kind) * PARTS_OF_INPUT;
    int64_t block = CACHED_BYTES / row_bytes / (2 * TILE_ROWS) * (2 * TILE_ROWS);
    block = block < 2 * TILE_ROWS ? 2 * TILE_ROWS : block;
    const int64_t most = rows < block ? rows + TILE_ROWS : block;
    struct TiledRows tiled = {room_for(&tiles_room, most * row_bytes),
                              room_for(&scale_room, most * sizeof(float)), 0};
    configure_tiles();
    for (int64_t m = 0; m < rows; m += block) {
        tiled.rows = rows - m < block ? rows - m : block;
        tile_rows(l, x + m * l->depth, &tiled);
        int64_t panel = begin;
        for (; panel + 2 <= end; panel += 2)
            panels_in_tiles(l, &tiled, panel, 2, out + m * l->columns, adds);
        if (panel < end)
            panels_in_tiles(l, &tiled, panel, 1, out + m * l->columns, adds);
    }
    _tile_release();
}
#else
static int has_tiles(const struct Linear *l) { return 0; }
static void linear_in_tiles(const struct Linear *l, const float *x, int64_t rows, int64_t begin,
                            int64_t end, float *out, int adds) {}
#endif
