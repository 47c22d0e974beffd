/*
 * Vectors of TU_W bytes: load, store, one operation, and the left fold at both ends of the operands.
 * No include guard: kernels_body.h includes this once for every width it uses. All pointers may be
 * unaligned and of any type, hence the attributes of the memory type.
 */
#define VECTOR TU_NAME(vector, TU_W)
#define MEMORY TU_NAME(memory, TU_W)
#define LOAD TU_NAME(load, TU_W)
#define STORE TU_NAME(store, TU_W)
#define APPLY TU_NAME(apply, TU_W)
#define ENDS TU_NAME(ends, TU_W)
#define FOLD_ENDS TU_NAME(fold_ends, TU_W)
#define STORE_ENDS TU_NAME(store_ends, TU_W)

typedef uint64_t VECTOR __attribute__((vector_size(TU_W)));
typedef uint64_t MEMORY __attribute__((vector_size(TU_W), aligned(1), may_alias));

/* The vectors at the two ends of an array. They may overlap: both are read before either is written. */
struct ENDS {
    VECTOR head, tail;
};

#define TU_L 32
#include "collectives/kernels_lane.h"
#undef TU_L
#define TU_L 64
#include "collectives/kernels_lane.h"
#undef TU_L

TU_INLINE VECTOR LOAD(const void *p, size_t at) {
    return *(const MEMORY *)((const char *)p + at);
}

TU_INLINE void STORE(void *out, void *also, size_t at, VECTOR v) {
    *(MEMORY *)((char *)out + at) = v;
    if (also) {
        *(MEMORY *)((char *)also + at) = v;
    }
}

TU_INLINE VECTOR APPLY(struct kind kind, VECTOR a, VECTOR b) {
    switch (kind.type) {
    case TUTTI_I32:
        return TU_NAME(integer_32, TU_W)(kind.op, a, b);
    case TUTTI_I64:
        return TU_NAME(integer_64, TU_W)(kind.op, a, b);
    case TUTTI_F32:
        return TU_NAME(real_32, TU_W)(kind.op, a, b);
    default: /* TUTTI_F64 */
        return TU_NAME(real_64, TU_W)(kind.op, a, b);
    }
}

/* Both in one loop, so that the latency of one hides that of the other. */
TU_INLINE struct ENDS FOLD_ENDS(struct kind kind, const void *const *a, int n, size_t last) {
    struct ENDS ends = {LOAD(a[0], 0), LOAD(a[0], last)};

    TU_NO_UNROLL
    for (int k = 1; k < n; k++) {
        ends.head = APPLY(kind, ends.head, LOAD(a[k], 0));
        ends.tail = APPLY(kind, ends.tail, LOAD(a[k], last));
    }
    return ends;
}

TU_INLINE void
STORE_ENDS(void *out, void *also, size_t last, struct ENDS ends) {
    STORE(out, also, 0, ends.head);
    STORE(out, also, last, ends.tail);
}

#undef VECTOR
#undef MEMORY
#undef LOAD
#undef STORE
#undef APPLY
#undef ENDS
#undef FOLD_ENDS
#undef STORE_ENDS
