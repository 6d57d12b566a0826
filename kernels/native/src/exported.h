/* KERNEL(name, arguments) for every kernel that Python calls, with the shape of each array. The
   formulas are at the definitions. N images, H × W, C channels or depth, O output channels or
   units, R rows, K values of a row, T steps, I inputs. */

/* convolution_body.h. The panel holds taps·C·O values, O rounded up to whole vectors;
   native/convolution.py defines the size of scratch, and of both for walks in tiles. The
   gradient is added to what dw holds if *adds. Bias, relu_mask, panel, db and adds may be null. For
   the clamp ADDS, relu_mask is added to y, which may be the same memory if O is whole vectors. */
KERNEL(correlate, (const float *x /* (N, H, W, C) */, const float *w /* (O, KH, KW, C) */,
                   const float *bias /* (O) */, const float *relu_mask /* as y */,
                   float *y /* (N, OH, OW, O) */, float *panel, const window_walk *walk,
                   int64_t clamp, float lo, float hi, int64_t packing /* 0, PACKS or PACKED */))
KERNEL(filter_sums, (const float *dy /* (N, OH, OW, O) */, const float *x /* (N, H, W, C) */,
                     float *dw /* (O, KH, KW, C) */, float *db /* (O) */, float *scratch,
                     const window_walk *walk, const int64_t *adds /* (1) */))

/* grouped_body.h. C is that of all groups in x, and that of one in w; the panel holds as many
   values as w, and so does scratch. */
KERNEL(grouped_correlate,
       (const float *x /* (N, H, W, C) */, const float *w /* (O, KH, KW, C) */,
        const float *bias /* (O) */, const float *relu_mask /* as y */,
        float *y /* (N, OH, OW, O) */, float *panel, const window_walk *walk, int64_t clamp,
        float lo, float hi, int64_t packing /* 0, PACKS or PACKED */))
KERNEL(grouped_filter_sums,
       (const float *dy /* (N, OH, OW, O) */, const float *x /* (N, H, W, C) */,
        float *dw /* (O, KH, KW, C) */, float *db /* (O) */, float *scratch,
        const window_walk *walk, const int64_t *adds /* (1) */))
/* bf16.c, for one instruction set. The panel holds the rounded weights in whole vectors, scratch
   BF16_SCRATCH values for each of PANEL_PARTS. */
KERNEL(correlate_bf16,
       (const float *x /* (N, H, W, C) */, const float *w /* (O, KH, KW, C) */,
        const float *bias /* (O) */, const float *relu_mask /* as y */,
        float *y /* (N, OH, OW, O) */, float *panel, float *scratch, const window_walk *walk,
        int64_t clamp, float lo, float hi, int64_t packing /* 0, PACKS or PACKED */))
KERNEL(filter_sums_bf16, (const float *dy /* (N, OH, OW, O) */, const float *x /* (N, H, W, C) */,
                          float *dw /* (O, KH, KW, C) */, float *db /* (O) */, float *scratch,
                          const window_walk *walk, const int64_t *adds /* (1) */))
KERNEL(matmul_bf16, (const matmul_shape *shape, const float *left /* (…, rows, depth) */,
                     const float *right /* (…, depth, columns) */,
                     float *y /* (…, rows, columns) */, float *scratch))

/* integer_body.h. start, m and weight_zeros are rounded up to 16 values, as is O in the weights of
   products. */
KERNEL(integer_products,
       (const uint8_t *x /* (N, H, W, C) */, const int8_t *w /* (O / 16, KH KW C / 4, 16, 4) */,
        const int32_t *start /* (O) */, const float *m /* (O) */, uint8_t *y /* (N, OH, OW, O) */,
        const window_walk *walk, int64_t border, int64_t flip, int64_t zero, int64_t lo, int64_t hi,
        const int32_t *weight_zeros /* (O), or null */))
KERNEL(integer_depthwise,
       (const uint8_t *x /* (N, H, W, C) */, const int8_t *w /* (1, KH, taps of a row, C) */,
        const int32_t *start /* (C) */, const float *m /* (C) */, uint8_t *y /* (N, OH, OW, C) */,
        const window_walk *walk, int64_t border, int64_t flip, int64_t zero, int64_t lo,
        int64_t hi))

KERNEL(integer_average_pool, (const uint8_t *x /* (N, H, W, C) */, uint8_t *y /* (N, OH, OW, C) */,
                              const window_walk *walk, int64_t flip, int64_t lo, int64_t hi))

KERNEL(integer_sum,
       (const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t size, int64_t flip, int64_t start,
        int64_t of_a, int64_t of_b, int64_t shift, int64_t zero, int64_t lo, int64_t hi))
KERNEL(integer_quantize, (const float *x, uint8_t *y, int64_t size, float factor, int64_t zero,
                          int64_t lo, int64_t hi))
KERNEL(integer_dequantize,
       (const uint8_t *x, float *y, int64_t size, float factor, int64_t flip, int64_t zero))
KERNEL(integer_dequantize_units, (const uint8_t *x /* (outer, units, inner) */, float *y /* as x */,
                                  const float *scale /* (units) */, const float *zero /* (units) */,
                                  int64_t outer, int64_t units, int64_t inner, int64_t flip))

KERNEL(integer_resize,
       (const uint8_t *x /* (N, H, W, C) */, uint8_t *y /* (N, OH, OW, C) */,
        const int32_t *rows /* (2, OH): first input, weight of the second */,
        const int32_t *cols /* (2, OW) */, int64_t images, int64_t height, int64_t width,
        int64_t channels, int64_t out_h, int64_t out_w, int64_t flip))

/* dense_body.h */
KERNEL(dense, (const float *x /* (R, C) */, const float *w /* (O, C) */,
               const float *bias /* (O) */, float *y /* (R, O) */, int64_t rows, int64_t depth,
               int64_t units, int64_t clamp, float lo, float hi))

/* packed_body.h. q: integers of 2, 4 or 8 bits. */
KERNEL(packed_dense,
       (const float *x /* (R, C) */, const uint8_t *q /* (O C bits / 8) */,
        const float *scales /* (O, C / inner) */, const float *bias /* (O), or null */,
        float *y /* (R, O) */, float *planes /* (R, C) */, int64_t rows, int64_t depth,
        int64_t units, int64_t inner, int64_t bits))
KERNEL(unpack_units,
       (const uint8_t *q /* (units inner bits / 8) */, float *y /* (units, inner) */,
        const float *scales /* (units) */, int64_t units, int64_t inner, int64_t bits))
KERNEL(decode_rows,
       (const uint8_t *q /* (E, K bits / 8) */, float *y /* (R, K) */, const int64_t *at /* (R) */,
        const float *scale /* (E, scales), or (1) */, const float *zero /* as scale */,
        int64_t rows, int64_t width, int64_t scales, int64_t bits, int64_t flip))
KERNEL(decode_blocks, (const uint8_t *q /* (E, blocks) */, float *y /* (R, 32 blocks) */,
                       const int64_t *at /* (R), or null */, int64_t rows, int64_t blocks,
                       int64_t bits, int64_t minimum))

/* stored_products_body.h. The panel holds `columns` times the depth of the walk. Scales and zeros
   are null for blocks, bias and relu_mask may be. */
KERNEL(stored_product,
       (const float *x /* (R, C) */, const uint8_t *q /* (units, depth) */,
        const float *scales /* (units, n) */, const float *zeros /* (units), of bytes */,
        const float *bias /* (O) */, const float *relu_mask /* as y */, float *y /* (R, O) */,
        float *panel, int64_t columns, int64_t step, int64_t of_depth, int64_t shift, int64_t bits,
        int64_t minimum, int64_t flip, const window_walk *walk, int64_t clamp, float lo, float hi))

/* depthwise_body.h. Each walk has other results. scratch: a row of C for each tap, rounded up to
   whole vectors. */
KERNEL(depthwise, (const float *x /* (N, H, W, C) */, const float *w /* (1, KH, KW, C) */,
                   const float *bias /* (C) */, const float *relu_mask /* as y */,
                   float *y /* (N, OH, OW, C) */, const window_walk *walk /* (walks) */,
                   int64_t walks, int64_t clamp, float lo, float hi))
KERNEL(depthwise_filter_sums, (const float *dy /* (N, OH, OW, C) */,
                               const float *x /* (N, H, W, C) */, float *dw /* (1, KH, KW, C) */,
                               float *db /* (C) */, float *scratch, const window_walk *walk))

KERNEL(repeat_channels,
       (const float *x /* (n) */, float *y /* (n, times) */, int64_t n, int64_t times))
KERNEL(sum_repeated,
       (const float *y /* (n, times) */, float *x /* (n) */, int64_t n, int64_t times))

/* batch_matmul_body.h */
KERNEL(matmul, (const matmul_shape *shape, const float *left /* (…, rows, depth) */,
                const float *right /* (…, depth, columns) */, float *y /* (…, rows, columns) */,
                float *panel /* (PANEL_PARTS, depth, MAX_NR vectors or ROW_BLOCK), or null */))

/* attention_body.h. M matrices of R rows, T keys of K values, W values of a row of results; stats
   are 2 floats of each row, and native/attention.py defines the size of sums and scratch. */
KERNEL(attention, (const float *q /* (M, R, K) */, const float *k /* (M, T, K) */,
                   const float *v /* (M, T, W) */, const float *mask /* (queries, T) */,
                   float *y /* (M, R, W) */, float *stats /* (M, R, 2) */, float *scratch,
                   int64_t count, int64_t rows, int64_t queries, int64_t keys, int64_t depth,
                   int64_t width, float beta, float hidden))
KERNEL(attention_back,
       (const float *q /* (M, R, K) */, const float *k /* (M, T, K) */,
        const float *v /* (M, T, W) */, const float *mask /* (queries, T) */,
        const float *stats /* (M, R, 2) */, const float *dy /* (M, R, W) */,
        float *dq /* (M, R, K) */, float *dk /* (M, T, K) */, float *dv /* (M, T, W) */,
        float *sums, float *scratch, int64_t count, int64_t rows, int64_t queries, int64_t keys,
        int64_t depth, int64_t width, int64_t splits, float beta, float hidden))

/* pool_body.h */
KERNEL(max_pool,
       (const float *x /* (N, H, W, C) */, float *y /* (N, OH, OW, C) */, const window_walk *walk))
KERNEL(max_pool_back, (const float *dy /* (N, OH, OW, C) */, const float *x /* (N, H, W, C) */,
                       const float *y /* (N, OH, OW, C) */, float *dx /* (N, H, W, C) */,
                       const window_walk *walk, int64_t relu_mask, float lo, float hi))
KERNEL(max_pool_argmax,
       (const float *x /* (N, H, W, C) */, const float *y /* (N, OH, OW, C) */,
        uint8_t *argmax /* (N, OH, OW, C) */, const window_walk *walk, int64_t none))
KERNEL(max_pool_argmax_back,
       (const float *dy /* (N, OH, OW, C) */, const uint8_t *argmax /* (N, OH, OW, C) */,
        float *dx /* (N, H, W, C) */, const window_walk *walk))
KERNEL(average_pool,
       (const float *x /* (N, H, W, C) */, float *y /* (N, OH, OW, C) */, const window_walk *walk))
KERNEL(average_pool_back, (const float *dy /* (N, OH, OW, C) */, float *dx /* (N, H, W, C) */,
                           const window_walk *walk))

/* rotate_body.h; K is 2 half. */
KERNEL(rotate, (const float *x /* (R, K) */, const float *sin /* (places, K) */,
                const float *cos /* (places, K) */, float *y /* (R, K) */, int64_t rows,
                int64_t places, int64_t half, int64_t back))

/* softmax_body.h */
KERNEL(softmax, (const float *x /* (R, K) */, float *y /* (R, K) */, int64_t rows, int64_t classes,
                 float beta))
KERNEL(softmax_back, (const float *dy /* (R, K) */, const float *y /* (R, K) */,
                      float *dx /* (R, K) */, int64_t rows, int64_t classes, float beta))
KERNEL(log_softmax,
       (const float *x /* (R, K) */, float *y /* (R, K) */, int64_t rows, int64_t classes))
KERNEL(log_softmax_back, (const float *dy /* (R, K) */, const float *y /* (R, K) */,
                          float *dx /* (R, K) */, int64_t rows, int64_t classes))
KERNEL(cross_entropy,
       (const float *x /* (R, K) */, const float *t /* (R, K) */,
        const float *scale /* (1), or (R) by row */, float *loss /* (1) */, float *p /* (R, K) */,
        int64_t rows, int64_t classes, int64_t by_row, float beta, float divisor))
KERNEL(cross_entropy_back,
       (const float *p /* (R, K) */, const float *t /* (R, K) */,
        const float *scale /* (1), or (R) by row */, float *dx /* (R, K) */, int64_t rows,
        int64_t classes, int64_t by_row, float beta, float divisor))
KERNEL(label_entropy,
       (const float *x /* (R, K) */, const int32_t *t /* (R) */,
        const float *scale /* (1), or (R) by row */, float *loss /* (1) */, float *p /* (R, K) */,
        int64_t rows, int64_t classes, int64_t by_row, float beta, float divisor))
KERNEL(label_entropy_back,
       (const float *p /* (R, K) */, const int32_t *t /* (R) */,
        const float *scale /* (1), or (R) by row */, float *dx /* (R, K) */, int64_t rows,
        int64_t classes, int64_t by_row, float beta, float divisor))
KERNEL(label_rows,
       (float *x /* (R, K) */, const int32_t *t /* (R) */,
        const float *scale /* (1), or (R) by row */, float *loss /* (1) */,
        float *terms /* (R) or 0 */, int32_t *best /* (R) or 0 */, int64_t rows, int64_t classes,
        int64_t by_row, float beta, float divisor, int64_t has_gradient))

/* normalization_body.h */
KERNEL(l2_norm, (const float *x /* (R, K) */, float *y /* (R, K) */, float *norm /* (R) */,
                 int64_t rows, int64_t n, float least))
KERNEL(l2_norm_back,
       (const float *dy /* (R, K) */, const float *y /* (R, K) */, float *norm /* (R) */,
        float *dx /* (R, K) */, int64_t rows, int64_t n, float least))
KERNEL(rms_norm, (const float *x /* (R, K) */, const float *gamma /* (K) */, float *y /* (R, K) */,
                  float *inv /* (R) */, int64_t rows, int64_t n, float epsilon))
KERNEL(rms_norm_back,
       (const float *dy /* (R, K) */, const float *x /* (R, K) */, const float *gamma /* (K) */,
        float *inv /* (R) */, float *dx /* (R, K) */, int64_t rows, int64_t n))

/* instance_norm_body.h, with R = H·W rows of an image. */
KERNEL(instance_norm,
       (const float *x /* (N, R, C) */, const float *gamma /* (C) */, const float *beta /* (C) */,
        float *y /* (N, R, C) */, float *mean /* (N, C) */, float *inv /* (N, C) */, int64_t images,
        int64_t rows, int64_t channels, float epsilon))
KERNEL(instance_norm_back,
       (const float *dy /* (N, R, C) */, const float *x /* (N, R, C) */,
        const float *gamma /* (C) */, float *mean /* (N, C) */, float *inv /* (N, C) */,
        float *dx /* (N, R, C) */, int64_t images, int64_t rows, int64_t channels))
KERNEL(instance_norm_scale,
       (const float *dy /* (N, R, C) */, const float *x /* (N, R, C) */, float *mean /* (N, C) */,
        float *inv /* (N, C) */, float *dgamma /* (C) */, int64_t images, int64_t rows,
        int64_t channels))

/* recurrent_body.h. The shape has the strides of samples and steps; native/recurrent.py defines the
   size of scratch. */
KERNEL(rnn, (const float *x /* (N, T, I) */, float *y /* (N, T, O) */, float *scratch,
             const float *w /* (O, I) */, const float *r /* (O, O) */, const float *b /* (O) */,
             const recurrent_shape *shape))
KERNEL(rnn_back,
       (const float *dy /* (N, T, O) */, const float *y /* (N, T, O) */, float *dz /* (N, T, O) */,
        float *scratch, const float *r /* (O, O) */, const recurrent_shape *shape))
KERNEL(lstm,
       (const float *x /* (N, T, I) */, float *y /* (N, T, O) */, float *gates /* (N, T, 4·O) */,
        float *cells /* (N, T, O) */, float *scratch, const float *wf /* (O, I) */,
        const float *wg /* (O, I) */, const float *wo /* (O, I) */, const float *wi /* (O, I) */,
        const float *rf /* (O, O) */, const float *rg /* (O, O) */, const float *ro /* (O, O) */,
        const float *ri /* (O, O) */, const float *bf /* (O) */, const float *bg /* (O) */,
        const float *bo /* (O) */, const float *bi /* (O) */, const recurrent_shape *shape))
KERNEL(integer_lstm,
       (const int8_t *x /* (N, T, I) */, const float *w /* (G O, I) */,
        const float *r /* (G O, P) */, const int64_t *b /* (G O) */, const int64_t *br /* (G O) */,
        const int64_t *m /* (4, G O) */, const int64_t *mr /* (4, G O) */,
        const int64_t *p /* (5, G O), or null */, const float *wp /* (P, O), or null */,
        const int64_t *bp /* (5, P) */, const int16_t *tables /* (3, 2¹⁶): σ, tanh, of a cell */,
        int8_t *y /* (N, T, P) */, float *scratch /* (N, 2 G O + max(I, O, P)) */,
        int64_t *cells /* (N, O) */, const integer_lstm_shape *at))
KERNEL(lstm_back,
       (const float *dy /* (N, T, O) */, const float *gates /* (N, T, 4·O) */,
        const float *cells /* (N, T, O) */, float *dz /* (N, T, 4·O) */, float *scratch,
        const float *rf /* (O, O) */, const float *rg /* (O, O) */, const float *ro /* (O, O) */,
        const float *ri /* (O, O) */, const recurrent_shape *shape))
KERNEL(gru,
       (const float *x /* (N, T, I) */, float *y /* (N, T, O) */, float *gates /* (N, T, 3·O) */,
        float *inner /* (N, T, O) */, float *scratch, const float *w /* (3·O, I) */,
        const float *r /* (3·O, O) */, const float *b /* (3·O) */, const float *late /* (3·O) */,
        const float *state /* (N, O), or null */, const recurrent_shape *shape))
KERNEL(gru_back,
       (const float *dy /* (N, T, O) */, const float *y /* (N, T, O) */,
        const float *gates /* (N, T, 3·O) */, const float *inner /* (N, T, O) */,
        const float *state /* (N, O), or null */, float *dz /* (N, T, 3·O) */,
        float *dp /* (N, T, 3·O) */, float *before /* (N, T, O) */, float *dstate /* (N, O) */,
        float *scratch, const float *r /* (3·O, O) */, const recurrent_shape *shape))

/* bitmask_body.h: the digest of n elements, eight in a byte. */
KERNEL(pack_bitmask,
       (const float *y /* (n) */, uint8_t *mask /* (⌈n / 8⌉) */, int64_t n, float lo, float hi))
KERNEL(apply_bitmask, (const float *dy /* (n) */, const uint8_t *mask /* (⌈n / 8⌉) */,
                       float *dx /* (n) */, int64_t n))
KERNEL(fake_quant, (const float *x /* (n) */, float *y /* (n) */, uint8_t *mask /* (⌈n / 8⌉) */,
                    float *observed /* (4) */, const float *numbers /* (4) */, int64_t n))

/* elementwise_body.h, besides the maps in elementwise_maps.h */
KERNEL(truths, (const uint8_t *c /* (n) */, float *y /* (n) */, int64_t size))

/* extremes_body.h */
KERNEL(extreme, (const float *x /* (outer, count, inner) */, float *y /* (outer, inner) */,
                 int64_t outer, int64_t count, int64_t inner, int64_t is_min))
KERNEL(extreme_back,
       (const float *dy /* (outer, inner) */, const float *x /* (outer, count, inner) */,
        const float *y /* (outer, inner) */, float *dx /* (outer, count, inner) */, int64_t outer,
        int64_t count, int64_t inner, int64_t first_only, int64_t relu_mask, float lo, float hi))

/* transpose_body.h: elements of four bytes, of any type */
KERNEL(transpose, (const transpose_shape *shape, const int32_t *x, int32_t *y))

/* gather_body.h: rows of K values; E entries; T values of a table. `first` may be null: then row r
   is entry r, and weights may be null, too: then they are 1. */
KERNEL(gather, (const float *x /* (N, …, K) */, float *y /* (N, R, K) */,
                const int64_t *first /* (R + 1) */, const int64_t *at /* (E) */,
                const float *weights /* (E) */, int64_t images, int64_t rows, int64_t width,
                int64_t x_rows))
KERNEL(gather_halves, (const uint16_t *table /* (E, K) */, float *y /* (R, K) */,
                       const int64_t *at /* (R) */, int64_t count, int64_t width))
KERNEL(scatter_add, (const float *rows /* (R, K) */, const int64_t *at /* (R) */,
                     float *table /* (T) */, int64_t count, int64_t width, int64_t size))
KERNEL(topk, (const float *x /* (R, C) */, float *values /* (R, k) */,
              int32_t *columns /* (R, k) */, int64_t rows, int64_t width, int64_t k))
KERNEL(topk_back, (const float *dvalues /* (R, k) */, const int32_t *columns /* (R, k) */,
                   float *dx /* (R, C) */, int64_t rows, int64_t width, int64_t k))

/* updates_body.h; total += gradient if *adds, else total = gradient. The numbers of updates change
   from step to step. zeros may be null. */
KERNEL(accumulate, (float *total /* (n) */, const float *gradient /* (n) */, int64_t n,
                    const int64_t *adds /* (1) */))
KERNEL(meet, (int64_t *state /* (3), of meet_others */, int64_t all, const bound_call *calls,
              int64_t count))
KERNEL(side_by_side, (const call_list *lists, int64_t count))
KERNEL(sgd, (float *p /* (n) */, const float *g /* (n) */, int64_t n,
             const float *numbers /* learning rate, decay */))
KERNEL(momentum, (float *p /* (n) */, const float *g /* (n) */, float *m /* (n) */, int64_t n,
                  const float *numbers /* learning rate, decay, momentum, nesterov */))
KERNEL(adam, (float *p /* (n) */, const float *g /* (n) */, float *m /* (n) */, float *v /* (n) */,
              int64_t n, const float *numbers /* α, rates of m and v, ε, scale, decay, p_scale */))
KERNEL(root_scaled, (float *p /* (n) */, const float *g /* (n) */, float *v /* (n) */, int64_t n,
                     const float *numbers /* learning rate, decay, keep, add, ε */))
KERNEL(root_scaled_momentum,
       (float *p /* (n) */, const float *g /* (n) */, float *v /* (n) */, float *m /* (n) */,
        int64_t n, const float *numbers /* learning rate, decay, keep, add, ε, momentum */))
KERNEL(lion, (float *p /* (n) */, const float *g /* (n) */, float *m /* (n) */, int64_t n,
              const float *numbers /* learning rate, factor of p, β₁, rate of m */))
KERNEL(add_rows,
       (float *sums /* (capacity, K) */, int64_t *rows /* (1 + capacity) */,
        int32_t *places /* (entries) */, const float *g /* (n, K) */, const int64_t *at /* (n) */,
        int64_t count, int64_t width, const int64_t *adds /* (1) */))
KERNEL(merge_rows, (float *sums /* (capacity, K) */, int64_t *rows /* (1 + capacity) */,
                    int32_t *places /* (entries) */, const float *others /* (fewer, K) */,
                    const int64_t *other_rows /* (1 + fewer) */, int64_t width))
KERNEL(update_rows,
       (float *p /* (entries, K) */, float *a /* as p, or null */, float *b /* as p, or null */,
        const float *numbers /* those of the optimizer */, int64_t rule,
        const float *sums /* (capacity, K) */, const int64_t *rows /* (1 + capacity) */,
        const int32_t *places /* (entries) */, int64_t entries, int64_t width, int64_t which,
        int64_t part, int64_t parts))
KERNEL(move_average, (float *e /* (n) */, const float *w /* (n) */, int64_t n,
                      const float *numbers /* share of w in e */))
KERNEL(sum_squares, (const float *a /* (n) */, int64_t n, double *total /* (1) */))
KERNEL(clip_factor, (const double *squares /* (n) */, int64_t n, const double *norm /* (1) */,
                     double *factor /* (1) */))
KERNEL(scale_by, (float *a /* (n) */, int64_t n, const double *factor /* (1) */))
KERNEL(move_statistics,
       (float *mean /* (n) */, float *variance /* (n) */, const float *center /* (n) */,
        const float *inv /* (n) */, int64_t n, float momentum, float rest, float epsilon))
KERNEL(round_units,
       (const float *w /* (outer, units, inner) */, float *y /* as w */,
        const float *scales /* (units) */, const float *zeros /* (units) */, int64_t outer,
        int64_t units, int64_t inner, float lo, float hi, int64_t fixed))

KERNEL(update_integers,
       (uint8_t *q /* (n) */, const float *g /* (n) */, float *a /* (n), or null */,
        float *b /* (n), or null */, const float *numbers /* those of the optimizer */,
        int64_t rule, int64_t first, int64_t n, const float *scales /* (units) */,
        const float *zeros /* (units) */, int64_t units, int64_t inner, int64_t flip, float lo,
        float hi, int64_t weight, const uint64_t *origin /* (3), as below */))

/* random_body.h. The origin of random numbers: seed, number of the step, first sample. */
KERNEL(dropout_mask, (float *mask /* (samples, n) */, int64_t size, int64_t n, int64_t weight,
                      int64_t use, float keep, const uint64_t *origin /* (3) */))

/* scans_body.h */
KERNEL(cumulative_sum,
       (const float *x /* (outer, count, inner) */, float *y /* as x */, int64_t outer,
        int64_t count, int64_t inner, int64_t exclusive, int64_t reverse))
KERNEL(product, (const float *x /* (outer, count, inner) */, float *y /* (outer, inner) */,
                 int64_t outer, int64_t count, int64_t inner))
KERNEL(product_back,
       (const float *dy /* (outer, inner) */, const float *x /* (outer, count, inner) */,
        float *dx /* as x */, int64_t outer, int64_t count, int64_t inner))
KERNEL(sines, (const float *x /* (n) */, float *y /* (n) */, int64_t n, int64_t quarter))

/* typed_body.h: values of the types that native/typed.py numbers. Sizes are in values, but that of
   `clear` and of a value of `one_hot` and `choose` in bytes. */
KERNEL(cast, (const void *x /* (n) */, void *y /* (n) */, int64_t n, int64_t from, int64_t to))
KERNEL(compare, (const elementwise_shape *m, uint8_t *y, const void *a, const void *b, int64_t type,
                 int64_t relation))
KERNEL(combine, (const elementwise_shape *m, void *y, const void *a, const void *b, int64_t type,
                 int64_t operation))
KERNEL(choose, (const elementwise_shape *m, void *y, const void *a, const void *b, const uint8_t *c,
                int64_t size))
KERNEL(arg_extreme,
       (const void *x /* (outer, count, inner) */, void *y /* (outer, inner) */, int64_t outer,
        int64_t count, int64_t inner, int64_t is_min, int64_t type, int64_t y_type))
KERNEL(one_hot, (const void *indices /* (outer, inner) */, void *out /* (outer, depth, inner) */,
                 const void *on /* (1) */, const void *off /* (1) */, int64_t outer, int64_t depth,
                 int64_t inner, int64_t type, int64_t size))
KERNEL(any_or_all, (const uint8_t *x /* (outer, count, inner) */, uint8_t *y /* (outer, inner) */,
                    int64_t outer, int64_t count, int64_t inner, int64_t all))
KERNEL(find_rows, (const void *indices /* (count, axes) */, int64_t *at /* (count) */,
                   int64_t *extent /* (axes, 2) */, const int64_t *sizes /* (axes) */,
                   int64_t count, int64_t axes, int64_t type))
KERNEL(note_extent, (const int64_t *extent /* (axes, 2) */, const int64_t *sizes /* (axes) */,
                     int64_t *noted /* (axes, 2) */, int64_t axes, int64_t *found /* (1) */))
KERNEL(find_slices, (const void *indices /* (groups, n) */, int64_t *at /* (groups, repeats, n) */,
                     int64_t *extent /* (1, 2) */, int64_t groups, int64_t repeats, int64_t n,
                     int64_t entries, int64_t type))
KERNEL(clear, (void *y, int64_t size))
