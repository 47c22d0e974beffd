/*
 * The operations on vectors of TU_W bytes with lanes of TU_L bits. No include guard: kernels_vector.h
 * includes this once for lanes of 32 bits and once for 64. The operation is a constant in every call,
 * so that only its own expression is left. Integers are unsigned inside, hence they wrap around.
 */
#if TU_L == 32
#define LANE_UNSIGNED uint32_t
#define LANE_SIGNED int32_t
#define LANE_FLOAT float
#define LANE_SUFFIX "ps"
#define SIGN_BIT INT32_MIN
#else
#define LANE_UNSIGNED uint64_t
#define LANE_SIGNED int64_t
#define LANE_FLOAT double
#define LANE_SUFFIX "pd"
#define SIGN_BIT INT64_MIN
#endif

#define UNSIGNED TU_NAME(TU_NAME(unsigned, TU_L), TU_W)
#define SIGNED TU_NAME(TU_NAME(signed, TU_L), TU_W)
#define FLOAT TU_NAME(TU_NAME(float, TU_L), TU_W)
#define CHOOSE TU_NAME(TU_NAME(choose, TU_L), TU_W)
#define ARITHMETIC TU_NAME(TU_NAME(arithmetic, TU_L), TU_W)

typedef LANE_UNSIGNED UNSIGNED __attribute__((vector_size(TU_W)));
typedef LANE_SIGNED SIGNED __attribute__((vector_size(TU_W)));
typedef LANE_FLOAT FLOAT __attribute__((vector_size(TU_W)));

/* a where the mask is all ones, b where it is 0: both compilers make one blend of it. */
TU_INLINE VECTOR CHOOSE(SIGNED mask, SIGNED a, SIGNED b) {
    return (VECTOR)((mask & a) | (~mask & b));
}

TU_INLINE VECTOR TU_NAME(TU_NAME(integer, TU_L), TU_W)(tutti_op op, VECTOR x, VECTOR y) {
    const UNSIGNED a = (UNSIGNED)x, b = (UNSIGNED)y;
    const SIGNED less = (SIGNED)x < (SIGNED)y;

    switch (op) {
    case TUTTI_SUM:
        return (VECTOR)(a + b);
    case TUTTI_PROD:
        return (VECTOR)(a * b);
    case TUTTI_MIN:
        return CHOOSE(less, (SIGNED)x, (SIGNED)y);
    case TUTTI_MAX:
        return CHOOSE(less, (SIGNED)y, (SIGNED)x);
    case TUTTI_LAND:
        return (VECTOR)((a != 0) & (b != 0) & 1);
    case TUTTI_LOR:
        return (VECTOR)(((a | b) != 0) & 1);
    case TUTTI_LXOR:
        return (VECTOR)(((a != 0) ^ (b != 0)) & 1);
    case TUTTI_BAND:
        return (VECTOR)(a & b);
    case TUTTI_BOR:
        return (VECTOR)(a | b);
    default: /* TUTTI_BXOR */
        return (VECTOR)(a ^ b);
    }
}

/*
 * Sum or product. Which NaN comes out of two depends on the order in which the operands are named, and
 * compilers may swap them. On x86-64, where the first one named comes out, the instruction is spelt
 * out. Elsewhere b is made 0 where a is NaN; then there is one NaN at most.
 */
TU_INLINE FLOAT ARITHMETIC(tutti_op op, FLOAT a, FLOAT b) {
#if TU_W <= TU_NATIVE && defined(__AVX__)
    FLOAT r;

    if (op == TUTTI_SUM) {
        __asm__("vadd" LANE_SUFFIX " %2, %1, %0" : "=v"(r) : "v"(a), TU_OPERAND(b));
    } else {
        __asm__("vmul" LANE_SUFFIX " %2, %1, %0" : "=v"(r) : "v"(a), TU_OPERAND(b));
    }
    return r;
#elif TU_W <= TU_NATIVE
    if (op == TUTTI_SUM) {
        __asm__("add" LANE_SUFFIX " %1, %0" : "+x"(a) : "x"(b));
    } else {
        __asm__("mul" LANE_SUFFIX " %1, %0" : "+x"(a) : "x"(b));
    }
    return a;
#else
    const FLOAT safe = (FLOAT)((SIGNED)b & (a == a));

    return op == TUTTI_SUM ? a + safe : a * safe;
#endif
}

/*
 * Min and max: a stays where it is NaN or compares well, else b comes (also where b is NaN). Of two
 * zeros the sign is settled by bits. Where the caller's processor state takes denormals for zeros
 * they count as zeros here too.
 */
TU_INLINE VECTOR TU_NAME(TU_NAME(real, TU_L), TU_W)(tutti_op op, VECTOR x, VECTOR y) {
    const FLOAT a = (FLOAT)x, b = (FLOAT)y;
    const SIGNED x_bits = (SIGNED)x, y_bits = (SIGNED)y;
    const SIGNED nan = a != a, equal = a == b;

    switch (op) {
    case TUTTI_MIN:
        return CHOOSE((a <= b) | nan, x_bits, y_bits) | (VECTOR)(equal & y_bits & SIGN_BIT);
    case TUTTI_MAX:
        return CHOOSE((a >= b) | nan, x_bits, y_bits) & ~(VECTOR)(equal & ~y_bits & SIGN_BIT);
    default:
        return (VECTOR)ARITHMETIC(op, a, b);
    }
}

#undef LANE_UNSIGNED
#undef LANE_SIGNED
#undef LANE_FLOAT
#undef LANE_SUFFIX
#undef SIGN_BIT
#undef UNSIGNED
#undef SIGNED
#undef FLOAT
#undef CHOOSE
#undef ARITHMETIC
