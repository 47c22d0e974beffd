/* The mailbox and the meeting, over a key-value space whose thread answers late or never. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/env.h"
#include "runtime/meeting.h"

enum { RANKS = 300, BYTES = 8, NOBODY = RANKS, ERRANDS = 4 * RANKS };

/* What the space's thread has to do, in this order. */
struct errand {
    struct tu_reply *reply; /* NULL: a rank is lost; or, with rank NOBODY, the thread ends */
    uint32_t rank;
    size_t bytes;
};

/* A space whose rank r has published bytes of the value r, but for some. */
struct fake {
    struct tu_space space;
    struct tu_env env;
    bool fence_hangs;
    int fence_code;      /* not 0: FAILED */
    uint32_t absent;     /* rank that has published nothing for the first */
    int absent_for;      /* asks */
    uint32_t silent;     /* rank for which no answer comes to the first */
    int silent_for;      /* asks */
    uint32_t other_size; /* rank that has published too many bytes */
    uint32_t dies;       /* rank that is lost during the fence */
    struct tu_reply *kept[8];
    int keeps;
    int published;
    pthread_t thread;
    struct errand errand[ERRANDS];
    atomic_int errands;
};

static struct fake *fake_of(struct tu_space *space) {
    return (struct fake *)((char *)space - offsetof(struct fake, space));
}

static void *run_errands(void *context) {
    struct fake *fake = context;

    for (int i = 0;; i++) {
        unsigned char data[BYTES + 1];
        struct errand errand;

        while (atomic_load_explicit(&fake->errands, memory_order_acquire) <= i) {
            usleep(100);
        }
        errand = fake->errand[i];
        memset(data, (int)errand.rank, sizeof data);
        if (errand.reply) {
            tu_reply_set(errand.reply, TU_ANSWER_HERE, 0, data, errand.bytes);
        } else if (errand.rank != NOBODY) {
            usleep(30000);
            tu_mailbox_lose(fake->space.box, errand.rank, TU_LOSS_KILLED);
            tu_mailbox_lose(fake->space.box, errand.rank, TU_LOSS_UNKNOWN); /* counts once */
        } else {
            return NULL;
        }
    }
}

static void send(struct fake *fake, struct errand errand) {
    int n = atomic_load_explicit(&fake->errands, memory_order_relaxed);

    cr_assert_lt(n, ERRANDS);
    fake->errand[n] = errand;
    atomic_store_explicit(&fake->errands, n + 1, memory_order_release);
}

static tutti_status publish(struct tu_space *space, const char *key, const void *data,
                            size_t bytes) {
    (void)key, (void)data, (void)bytes;
    fake_of(space)->published++;
    return TUTTI_OK;
}

static void get(struct tu_space *space, const char *key, uint32_t rank, void *argument,
                struct tu_reply *reply) {
    struct fake *fake = fake_of(space);

    cr_assert_str_eq(key, "key");
    memset(argument, 1, space->ops->argument_bytes);
    if (rank == fake->silent && fake->silent_for-- > 0) {
        fake->kept[fake->keeps++] = reply;
    } else if (rank == fake->absent && fake->absent_for-- > 0) {
        tu_reply_set(reply, TU_ANSWER_ABSENT, 0, NULL, 0); /* at once: allowed, too */
    } else {
        send(fake, (struct errand){.reply = reply,
                                   .rank = rank,
                                   .bytes = rank == fake->other_size ? BYTES + 1 : BYTES});
    }
}

static void fence(struct tu_space *space, void *argument, struct tu_reply *reply) {
    struct fake *fake = fake_of(space);

    memset(argument, 1, space->ops->argument_bytes);
    if (fake->fence_hangs) {
        fake->kept[fake->keeps++] = reply;
    } else if (fake->fence_code) {
        tu_reply_set(reply, TU_ANSWER_FAILED, fake->fence_code, NULL, 0);
    } else {
        send(fake, (struct errand){.reply = reply});
    }
    if (fake->dies != NOBODY) {
        send(fake, (struct errand){.rank = fake->dies});
    }
}

static const char *host(struct tu_space *space, uint32_t rank, char name[TU_HOST_BYTES]) {
    (void)space;
    snprintf(name, TU_HOST_BYTES, "n%u", rank);
    return name;
}

static const char *code_text(int code) {
    return code == 7 ? "SEVEN" : "another";
}

static const struct tu_space_ops ops = {"fake", 24, publish, get, fence, host, code_text};

static struct fake *make(void) {
    struct fake *fake = calloc(1, sizeof *fake);

    fake->env.rank = 0;
    fake->env.log.level = TU_LOG_OFF;
    fake->space = (struct tu_space){.ops = &ops,
                                    .env = &fake->env,
                                    .box = tu_mailbox_create(RANKS),
                                    .size = RANKS,
                                    .grace_ms = 200};
    fake->absent = fake->silent = fake->other_size = fake->dies = NOBODY;
    cr_assert_eq(pthread_create(&fake->thread, NULL, run_errands, fake), 0);
    return fake;
}

/* Answers that nobody waits for any more come after the mailbox's owner has let go of it. */
static void end(struct fake *fake) {
    send(fake, (struct errand){.rank = NOBODY});
    pthread_join(fake->thread, NULL);
    tu_mailbox_release(fake->space.box);
    for (int i = 0; i < fake->keeps; i++) {
        unsigned char data[BYTES] = {0};

        tu_reply_set(fake->kept[i], TU_ANSWER_HERE, 0, data, BYTES);
    }
    free(fake);
}

static tutti_status exchange_all(struct fake *fake, unsigned char *out, int timeout_ms) {
    unsigned char mine[BYTES] = {0};

    return tu_meeting_exchange(&fake->space, "key", mine, BYTES, NULL, RANKS, out, timeout_ms);
}

static void expect_text(const struct fake *fake, const char *part) {
    cr_assert(strstr(fake->env.error, part), "no \"%s\" in: %s", part, fake->env.error);
}

Test(meeting, brings_every_block, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];
    uint32_t some[] = {7, 255, 256, 299};

    cr_assert_eq(exchange_all(fake, out, 5000), TUTTI_OK);
    for (uint32_t i = 0; i < RANKS * BYTES; i++) {
        cr_assert_eq(out[i], (unsigned char)(i / BYTES));
    }
    cr_assert_eq(tu_meeting_exchange(&fake->space, "key", out, BYTES, some, 4, out, 0), TUTTI_OK);
    for (uint32_t i = 0; i < 4 * BYTES; i++) {
        cr_assert_eq(out[i], (unsigned char)some[i / BYTES]);
    }
    cr_assert_eq(tu_meeting_exchange(&fake->space, "key", out, BYTES, NULL, 0, NULL, 0), TUTTI_OK);
    cr_assert_eq(fake->published, 3);
    end(fake);
}

Test(meeting, asks_again, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];

    fake->absent = 5;
    fake->absent_for = 4;
    cr_assert_eq(exchange_all(fake, out, 5000), TUTTI_OK);
    cr_assert_eq(out[5 * BYTES], 5);
    end(fake);
}

Test(meeting, names_who_left, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];

    memset(out, 0xEE, sizeof out);
    fake->absent = 5;
    fake->absent_for = 1000;
    cr_assert_eq(exchange_all(fake, out, 5000), TUTTI_ERR_DEAD);
    expect_text(fake, "rank 5 (host n5) ended, or left fake");
    for (size_t i = 0; i < sizeof out; i++) {
        cr_assert_eq(out[i], 0xEE, "outputs are set only on success");
    }
    end(fake);
}

Test(meeting, repeats_a_request_without_an_answer, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];
    uint64_t start_ns = tu_now_ns();

    fake->silent = 200;
    fake->silent_for = 1;
    cr_assert_eq(exchange_all(fake, out, 0), TUTTI_OK);
    cr_assert_geq(tu_now_ns() - start_ns, UINT64_C(1000000000));
    fake->silent_for = 1000;
    cr_assert_eq(exchange_all(fake, out, 300), TUTTI_ERR_TIMEOUT);
    expect_text(fake, "rank 200 (host n200) did not come within 300 ms");
    end(fake);
}

Test(meeting, names_who_is_late, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];
    uint64_t start_ns = tu_now_ns(), took_ms;

    fake->fence_hangs = true;
    fake->absent = 3;
    fake->absent_for = 1000;
    fake->silent = 270;
    fake->silent_for = 1;
    cr_assert_eq(exchange_all(fake, out, 100), TUTTI_ERR_TIMEOUT);
    took_ms = (tu_now_ns() - start_ns) / 1000000u;
    expect_text(fake, "rank 3 (host n3), rank 270 (host n270) did not come within 100 ms");
    cr_assert(took_ms >= 100 && took_ms < 3000, "%lu ms", (unsigned long)took_ms);
    end(fake);
}

Test(meeting, late_but_all_there_is_no_error, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];

    fake->fence_hangs = true;
    cr_assert_eq(exchange_all(fake, out, 50), TUTTI_OK);
    end(fake);
}

Test(meeting, a_loss_ends_the_wait, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];
    uint32_t rank;
    enum tu_loss how;

    fake->fence_hangs = true;
    fake->dies = 4;
    cr_assert_eq(exchange_all(fake, out, 0), TUTTI_ERR_DEAD);
    expect_text(fake, "rank 4 (host n4) was killed");
    cr_assert_eq(tu_mailbox_losses(fake->space.box), 1);
    tu_mailbox_loss(fake->space.box, 0, &rank, &how);
    cr_assert(rank == 4 && how == TU_LOSS_KILLED);

    /* from now on exchange and fence are hopeless */
    fake->dies = NOBODY;
    fake->fence_hangs = false;
    fake->published = 0;
    cr_assert_eq(exchange_all(fake, out, 0), TUTTI_ERR_DEAD);
    cr_assert_eq(fake->published, 0);
    cr_assert_eq(tu_meeting_fence(&fake->space, 0), TUTTI_ERR_DEAD);
    end(fake);
}

Test(meeting, fence_times_out_and_fails, .timeout = 20) {
    struct fake *fake = make();

    fake->fence_hangs = true;
    cr_assert_eq(tu_meeting_fence(&fake->space, 30), TUTTI_ERR_TIMEOUT);
    fake->fence_hangs = false;
    fake->fence_code = 7;
    cr_assert_eq(tu_meeting_fence(&fake->space, 30), TUTTI_ERR_LAUNCH);
    expect_text(fake, "SEVEN (7)");
    tu_mailbox_close(fake->space.box);
    fake->fence_hangs = true;
    cr_assert_eq(tu_meeting_fence(&fake->space, 0), TUTTI_ERR_LAUNCH);
    expect_text(fake, "connection to the launcher was lost");
    end(fake);
}

Test(meeting, another_size_is_another_version, .timeout = 20) {
    struct fake *fake = make();
    unsigned char out[RANKS * BYTES];

    fake->other_size = 6;
    cr_assert_eq(exchange_all(fake, out, 1000), TUTTI_ERR_LAUNCH);
    expect_text(fake, "rank 6 (host n6) published 9 bytes where 8 were expected");
    end(fake);
}

Test(meeting, many_ranks_are_named_in_short) {
    struct tu_rank_list list = {0};

    for (uint32_t rank = 4294967280u; rank < 4294967293u; rank++) {
        tu_rank_list_add(&list, rank, "a-host-name-that-is-quite-long-but-still-possible.example");
    }
    cr_assert(strstr(tu_rank_list_text(&list), "rank 4294967280 (host a-host"));
    cr_assert(strstr(tu_rank_list_text(&list), ") and 5 more"), "%s", list.text);
}
