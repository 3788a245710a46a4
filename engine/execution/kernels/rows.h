/* What is computed row by row: norms and activations. */

INLINE void rms_norm_row(const float *x, int64_t size, const float *weight, float epsilon,
                         float *out) {
    /* out = x / sqrt(mean(x²) + epsilon) · weight; x may be out */
    Vector squares = splat(0.0f);
    for (int64_t i = 0; i < size; i += WIDTH) {
        const Vector v = load_some(x + i, size - i);
        squares = fused(v, v, squares);
    }
    const Vector factor = splat(1.0f / sqrtf(sum_of_lanes(squares) / size + epsilon));
    for (int64_t i = 0; i < size; i += WIDTH)
        store_some(out + i, load_some(x + i, size - i) * factor * load_some(weight + i, size - i),
                   size - i);
}

static void rms_norm_in_team(const float *x, int64_t rows, int64_t size, const float *weight,
                             float epsilon, float *out) {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; row++)
        rms_norm_row(x + row * size, size, weight, epsilon, out + row * size);
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

static void gated_activation_in_team(const float *gate_up, int64_t rows, int64_t size,
                                     int activation, float *out) {
    /* gate_up is (rows, 2·size): out = activation(gate) · up. */
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *gate = gate_up + row * 2 * size, *up = gate + size;
        for (int64_t i = 0; i < size; i += WIDTH) {
            const Vector y = activated(load_some(gate + i, size - i), activation);
            store_some(out + row * size + i, y * load_some(up + i, size - i), size - i);
        }
    }
}
