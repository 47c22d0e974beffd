/*
 * The clock of simulated ranks. Programs that link the simulator read CLOCK_MONOTONIC through here
 * (-Wl,--wrap=clock_gettime): while a simulation runs, it tells the simulation's time.
 */
#ifndef TU_TESTS_SIM_CLOCK_H
#define TU_TESTS_SIM_CLOCK_H

#include <stdint.h>

/* From now on the clock shows *now_ns; NULL: the real time. */
void sim_clock_follow(const uint64_t *now_ns);

#endif
