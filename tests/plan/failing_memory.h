/*
 * Memory that runs out at a chosen allocation. Link with malloc, calloc, realloc and free wrapped
 * (FAILING_MEMORY in CMakeLists.txt).
 */
#ifndef TU_TESTS_PLAN_FAILING_MEMORY_H
#define TU_TESTS_PLAN_FAILING_MEMORY_H

/* The allocation after `allocations` more fails, later ones succeed; -1: none fails. */
void memory_fails_after(long allocations);
/* Allocations that are not freed. */
long memory_held(void);

#endif
