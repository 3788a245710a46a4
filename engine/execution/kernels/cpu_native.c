/* The CPU kernels, as the engine calls them: linear, paged attention, norms, activations, and whole
   decoder layers.

   One property rules these files: every output element is one fixed sequence of float32 operations,
   whatever else is in the batch, however the rows are tiled, and on any number of threads. So a
   token's logits depend on the tokens before it and on nothing else, and a request that moves to
   another engine goes on bit for bit. Hence: no -ffast-math, explicit fused multiply-adds, sums in
   one order, and no scalar tails beside vector code.

   Plain C with GCC's vector extensions; intrinsics only where those have no word for it. Functions
   named …_in_team are called by all threads of a parallel region, and share their work among them. */

#include "vectors.h"

#include "linear.h"

#include "attention.h"

#include "rows.h"

#include "decoder.h"

void linear(const struct Linear *weights, const float *x, int64_t rows, float *out, int threads) {
#pragma omp parallel num_threads(threads)
    linear_in_team(weights, x, rows, out, 0);
}

void paged_attention(const struct Attention *a) {
#pragma omp parallel num_threads(a->threads)
    {
        write_cache_in_team(a);
        attend_in_team(a);
    }
}

void rms_norm(const float *x, int64_t rows, int64_t size, const float *weight, float epsilon,
              float *out, int threads) {
#pragma omp parallel num_threads(threads) if (rows > 1)
    rms_norm_in_team(x, rows, size, weight, epsilon, out);
}

void activate(const float *x, int64_t count, int activation, float *out) {
    for (int64_t i = 0; i < count; i += WIDTH)
        store_some(out + i, activated(load_some(x + i, count - i), activation), count - i);
}

void gated_activation(const float *gate_up, int64_t rows, int64_t size, int activation, float *out,
                      int threads) {
#pragma omp parallel num_threads(threads) if (rows > 1)
    gated_activation_in_team(gate_up, rows, size, activation, out);
}

void decoder_layers(const struct Decoder *d) {
#pragma omp parallel num_threads(d->attention.threads)
    for (int64_t layer = 0; layer < d->num_layers; layer++)
        decoder_layer_in_team(d, d->layers + layer);
}
