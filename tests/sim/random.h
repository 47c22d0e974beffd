/* The random numbers of the simulator: one state per stream, so that one seed gives one run. */
#ifndef TU_TESTS_SIM_RANDOM_H
#define TU_TESTS_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* splitmix64 */
static inline uint64_t sim_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. below - 1 */
static inline uint32_t sim_below(uint64_t *state, uint32_t below) {
    return (uint32_t)((sim_random(state) >> 32) * below >> 32);
}

static inline bool sim_chance(uint64_t *state, uint32_t of_1024) {
    return sim_below(state, 1024) < of_1024;
}

/* An independent stream. */
static inline uint64_t sim_stream(uint64_t seed, uint64_t number) {
    uint64_t state = seed ^ number * UINT64_C(0xd1342543de82ef95);
    return sim_random(&state);
}

#endif
