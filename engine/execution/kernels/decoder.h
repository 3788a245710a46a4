/* Whole decoder layers of the common architecture: norm, attention with rotary positions, norm, gated
   MLP, each half added to what came in. All layers are one call, so that between two kernels there
   is a barrier of the threads and no interpreter. */

struct Layer {
    struct Linear query_key_value, output, gate_up, down;
    const float *input_norm, *middle_norm;
    const float *query_norm, *key_norm; /* of each head, or none */
    void *key_cache, *value_cache;
};

struct Decoder {
    const struct Layer *layers;
    int64_t num_layers, tokens, hidden, intermediate;
    const float *cosines, *sines; /* (token, lane of a head) */
    float *x;                     /* (token, hidden): what comes in, and what goes out */
    float *normed, *query_key_value, *attended, *gate_up, *activated; /* rows of tokens */
    float epsilon, head_epsilon;
    int activation;
    struct Attention attention; /* without caches, which are the layers' */
};

INLINE void rotate(float *head, const float *cosines, const float *sines, int64_t dim) {
    const int64_t half = dim / 2;
    for (int64_t i = 0; i < half; i += WIDTH) {
        const int64_t left = half - i;
        const Vector a = load_some(head + i, left), b = load_some(head + half + i, left);
        const Vector across = b * load_some(sines + i, left);
        const Vector along = a * load_some(sines + half + i, left);
        store_some(head + i, fused(a, load_some(cosines + i, left), -across), left);
        store_some(head + half + i, fused(b, load_some(cosines + half + i, left), along), left);
    }
}

/* Norm, where there is one, and rotary position of the queries and keys of each token. */
static void place_in_team(const struct Decoder *d, const struct Layer *layer) {
    const int64_t dim = d->attention.head_dim, heads = d->attention.heads;
    const int64_t all = heads + d->attention.kv_heads, width = all + d->attention.kv_heads;
#pragma omp for schedule(static)
    for (int64_t token = 0; token < d->tokens; token++)
        for (int64_t i = 0; i < all; i++) {
            float *head = d->query_key_value + (token * width + i) * dim;
            const float *norm = i < heads ? layer->query_norm : layer->key_norm;
            if (norm)
                rms_norm_row(head, dim, norm, d->head_epsilon, head);
            rotate(head, d->cosines + token * dim, d->sines + token * dim, dim);
        }
}

static void decoder_layer_in_team(const struct Decoder *d, const struct Layer *layer) {
    struct Attention attention = d->attention;
    attention.key_cache = layer->key_cache;
    attention.value_cache = layer->value_cache;
    rms_norm_in_team(d->x, d->tokens, d->hidden, layer->input_norm, d->epsilon, d->normed);
    linear_in_team(&layer->query_key_value, d->normed, d->tokens, d->query_key_value, 0);
#pragma omp barrier
    place_in_team(d, layer);
    write_cache_in_team(&attention);
    attend_in_team(&attention);
    linear_in_team(&layer->output, d->attended, d->tokens, d->x, 1);
#pragma omp barrier
    rms_norm_in_team(d->x, d->tokens, d->hidden, layer->middle_norm, d->epsilon, d->normed);
    linear_in_team(&layer->gate_up, d->normed, d->tokens, d->gate_up, 0);
#pragma omp barrier
    gated_activation_in_team(d->gate_up, d->tokens, d->intermediate, d->activation, d->activated);
    linear_in_team(&layer->down, d->activated, d->tokens, d->x, 1);
#pragma omp barrier
}
