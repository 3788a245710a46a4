/* Attention over the paged KV cache.

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
    void *key_cache, *value_cache; /* (block, kv head, slot, lane): a block's rows are read in order */
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
    return ((block * a->kv_heads + kv_head) * a->block_size + position % a->block_size) *
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

INLINE Vector fold(Vector *v, int count, int level) { /* `count` vectors, folded `level` times before */
    UNROLL for (; count > 1; count /= 2, level++)
        UNROLL for (int i = 0; i < count / 2; i++)
            v[i] = __builtin_shuffle(v[2 * i], v[2 * i + 1], low[level]) +
                   __builtin_shuffle(v[2 * i], v[2 * i + 1], high[level]);
    return v[0];
}

struct Tile {
    float query[TILE][MAX_HEAD], sum[TILE][MAX_HEAD];
    float weight[TILE][CHUNK];
    float maximum[TILE], total[TILE];
    int64_t position[TILE]; /* of each row's query */
    int64_t row_index[CHUNK], next_index[CHUNK];
};

#if ACCUMULATORS > 12
#define KEYS_AT_ONCE 4 /* by four rows of queries, in registers */
#define LEVELS 2       /* that fold so many keys */
#else
#define KEYS_AT_ONCE 2
#define LEVELS 1
#endif

/* Blocks are scattered over memory, which is asked for each row a chunk before it is used, beside the
   arithmetic: into the second-level cache, since the first has no room for two chunks. */
INLINE void prefetch_row(const void *cache, int64_t index, int64_t dim, enum Kind kind) {
    const char *row = (const char *)cache + index * kind_bytes(kind);
    for (int64_t byte = 0; byte < dim * kind_bytes(kind); byte += 64)
        __builtin_prefetch(row + byte, 0, 2);
}

INLINE void score_keys(struct Tile *t, const void *keys, enum Kind kind, int64_t dim, int64_t j,
                       int first, int rows) {
    /* WIDTH positions from the chunk's j-th on, one score a lane. */
    Vector scores[4][WIDTH / KEYS_AT_ONCE];
    UNROLL for (int part = 0; part < WIDTH / KEYS_AT_ONCE; part++) {
        const int64_t at = j + part * KEYS_AT_ONCE, *index = t->row_index + at;
        if (first == 0)
            UNROLL for (int i = 0; i < KEYS_AT_ONCE; i++)
                prefetch_row(keys, t->next_index[at + i], dim, kind);
        Vector sum[4][KEYS_AT_ONCE];
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int i = 0; i < KEYS_AT_ONCE; i++)
                sum[r][i] = splat(0.0f);
        for (int64_t d = 0; d < dim; d += WIDTH)
            UNROLL for (int i = 0; i < KEYS_AT_ONCE; i++) {
                const Vector key = load_kind(keys, index[i] + d, kind);
                UNROLL for (int r = 0; r < rows; r++)
                    sum[r][i] = fused(load(t->query[first + r] + d), key, sum[r][i]);
            }
        UNROLL for (int r = 0; r < rows; r++)
            scores[r][part] = fold(sum[r], KEYS_AT_ONCE, 0);
    }
    UNROLL for (int r = 0; r < rows; r++)
        store(t->weight[first + r] + j, fold(scores[r], WIDTH / KEYS_AT_ONCE, LEVELS));
}

INLINE void score_chunk(struct Tile *t, const void *keys, enum Kind kind, int64_t count,
                        int64_t dim, int first, int rows) {
    for (int64_t j = 0; j < count; j += WIDTH)
        score_keys(t, keys, kind, dim, j, first, rows);
}

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
                          int64_t dim, int first, int rows, int64_t lane, int vectors) {
    Vector sum[4][LANES_AT_ONCE];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int i = 0; i < vectors; i++)
            sum[r][i] = load(t->sum[first + r] + lane + i * WIDTH);
    for (int64_t j = 0; j < count; j++) {
        if (first == 0 && lane == 0)
            prefetch_row(values, t->next_index[j], dim, kind);
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
        add_values_at(t, values, kind, count, dim, first, rows, lane, LANES_AT_ONCE);
    for (; lane < dim; lane += WIDTH)
        add_values_at(t, values, kind, count, dim, first, rows, lane, 1);
}

INLINE void find_rows(const struct Attention *a, int64_t *row_index, int64_t sequence,
                      int64_t kv_head, int64_t start, int64_t count) {
    /* Where each position's row lies. */
    const int32_t *block = a->block_table + a->table_start[sequence] + start / a->block_size;
    for (int64_t j = count; j < CHUNK; j++)
        row_index[j] = 0; /* scored where it fills a vector, and then left out */
    int64_t slot = start % a->block_size;
    for (int64_t j = 0; j < count; j++) {
        row_index[j] = ((*block * a->kv_heads + kv_head) * a->block_size + slot) * a->head_dim;
        if (++slot == a->block_size) {
            slot = 0;
            block++;
        }
    }
}

INLINE void attend_chunk(const struct Attention *a, struct Tile *t, int64_t start, int64_t count,
                         int rows, int64_t dim, enum Kind kind) {
#define FOUR_AT_ONCE(DO, ...)                                                                      \
    for (int r = 0; r < rows; r += 4) {                                                            \
        if (rows - r >= 4)                                                                         \
            DO(__VA_ARGS__, r, 4);                                                                 \
        else if (rows - r == 3)                                                                    \
            DO(__VA_ARGS__, r, 3);                                                                 \
        else if (rows - r == 2)                                                                    \
            DO(__VA_ARGS__, r, 2);                                                                 \
        else                                                                                       \
            DO(__VA_ARGS__, r, 1);                                                                 \
    }
    FOUR_AT_ONCE(score_chunk, t, a->key_cache, kind, count, dim)
    for (int r = 0; r < rows; r++)
        weigh_row(t, r, start, dim);
    FOUR_AT_ONCE(add_values, t, a->value_cache, kind, count, dim)
#undef FOUR_AT_ONCE
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
    find_rows(a, t.next_index, sequence, kv_head, 0, count);
    for (int64_t j = 0; j < count; j++) {
        prefetch_row(a->key_cache, t.next_index[j], dim, kind);
        prefetch_row(a->value_cache, t.next_index[j], dim, kind);
    }
    for (int64_t start = 0; start < context; start += CHUNK) {
        const int64_t left = context - start - count, next = left < CHUNK ? left : CHUNK;
        memcpy(t.row_index, t.next_index, sizeof t.row_index);
        find_rows(a, t.next_index, sequence, kv_head, start + count, next);
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

/* Write the step's keys and values to the cache. */
static void write_cache_in_team(const struct Attention *a) {
    int64_t sequence = 0;
#pragma omp for schedule(static)
    for (int64_t token = 0; token < a->query_start[a->sequences]; token++) {
        while (token >= a->query_start[sequence + 1])
            sequence++;
        write_cache(a, sequence, token);
    }
}

/* Attend to all that is in the cache. */
static void attend_in_team(const struct Attention *a) {
    const int64_t group = a->heads / a->kv_heads;
    const int64_t tile_heads = group < TILE ? group : TILE;
    const int64_t tile_tokens = TILE / tile_heads;
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
#pragma omp barrier
}
