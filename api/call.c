/* The life of a call: numbered, queued for its bank, run, done. And progress of all. */
#include <string.h>

#include "api/job.h"
#include "runtime/text.h"

enum { LOOKS = 16 }; /* at one cell, between two passes */

/* ---- active comms ---- */

static void activate(tutti_comm *comm) {
    if (comm->active)
        return;
    comm->active = true;
    comm->next_active = comm->job->active;
    comm->job->active = comm;
}

static bool is_idle(const tutti_comm *comm) {
    return !comm->running && !comm->first;
}

/* ---- running ---- */

static void finish(struct tu_call *call, tutti_status status) {
    call->task->prepared->users--;
    call->status = status;
    call->state = TU_CALL_DONE;
}

/* The bank's call is over: its buffers belong to the caller again. */
static void retire(tutti_comm *comm, struct tu_bank *bank, tutti_status status) {
    struct tu_call *call = bank->call;
    tu_run_end(&bank->run);
    bank->call = NULL;
    comm->running--;
    tu_record_finish(call);
    finish(call, status);
}

static void cannot_start(struct tu_call *call, tutti_status status) {
    tutti_comm *comm = call->comm;
    char why[200];
    tu_text_format(why, sizeof why, "%s", comm->job->env.error);
    tu_comm_fail(comm, status, comm->rank, "a call could not be started: %s", why);
}

/* Puts the call into its bank. A failure (memory) ruins the comm: the others have started. */
static void run(struct tu_call *call, struct tu_bank *bank) {
    tutti_comm *comm = call->comm;
    const struct tu_task *task = call->task;
    struct tu_run *run = &bank->run;
    struct tu_program *program = &task->prepared->program[run->bank];
    tutti_status status = TUTTI_OK;
    call->state = TU_CALL_RUNNING;
    call->bank = bank;
    bank->call = call;
    comm->next_bank = comm->next_bank + 1 == comm->banks ? 0 : comm->next_bank + 1;
    comm->running++;
    if (!program->memory)
        status = tu_run_prepare(run, &task->work, task->prepared->plan->bound, &task->prepared->cut,
                                program);
    if (!status) {
        tu_run_start(run, &task->work, call->fingerprint, program);
        tu_run_advance(run); /* before all else: peers may wait for its first message */
    }
    tu_record_call(call);
    if (status)
        cannot_start(call, status);
    else if (run->state == TU_RUN_DONE)
        retire(comm, bank, TUTTI_OK);
}

/* Calls start in order, each in its bank, as soon as that is idle. */
static void start_waiting(tutti_comm *comm) {
    while (comm->first && !comm->bank[comm->next_bank].call) {
        struct tu_call *call = comm->first;
        struct tu_bank *bank = &comm->bank[comm->next_bank];
        comm->first = call->next;
        if (!comm->first)
            comm->last = NULL;
        run(call, bank);
    }
}

void tu_call_start(struct tu_call *call) {
    tutti_comm *comm = call->comm;
    call->number = comm->calls++;
    call->rejected = comm->rejected;
    call->fingerprint = tu_fingerprint(comm->fingerprint, call->task->hash, call->rejected);
    comm->fingerprint = call->fingerprint;
    call->watch = (struct tu_watch){0};
    call->task->prepared->users++;
    struct tu_bank *bank = &comm->bank[comm->next_bank];
    if (!comm->first && !bank->call) {
        run(call, bank);
        if (call->state != TU_CALL_DONE)
            activate(comm);
        return;
    }
    activate(comm);
    call->state = TU_CALL_WAITING;
    call->next = NULL;
    if (comm->last)
        comm->last->next = call;
    else
        comm->first = call;
    comm->last = call;
    tu_progress(comm->job);
}

static tutti_status mismatch(tutti_comm *comm, const struct tu_run *run) {
    char text[400], who[96];
    if (!tu_record_differ(comm, run->culprit, text, sizeof text))
        tu_text_format(text, sizeof text, "its record does not tell which");
    return tu_comm_fail(comm, TUTTI_ERR_MISMATCH, run->culprit,
                        "%s made another call on communicator %u than this rank: %s",
                        tu_rank_text(comm->job, run->culprit, who, sizeof who), comm->id, text);
}

static uint32_t advance_bank(tutti_comm *comm, struct tu_bank *bank) {
    uint32_t moved = tu_run_advance(&bank->run);
    if (bank->run.state == TU_RUN_GOING)
        return moved;
    if (bank->run.state == TU_RUN_DONE)
        retire(comm, bank, TUTTI_OK);
    else
        mismatch(comm, &bank->run); /* ends all calls */
    return moved + 1;
}

static uint32_t advance(tutti_comm *comm) {
    uint32_t moved = 0;
    for (uint32_t b = 0; b < comm->banks; b++)
        if (comm->bank[b].call)
            moved += advance_bank(comm, &comm->bank[b]);
    if (comm->first)
        start_waiting(comm);
    return moved;
}

/* Does any call under way need the wire? An idle one is not polled. */
static bool wire_awaited(const tutti_comm *comm) {
    for (uint32_t b = 0; b < comm->banks; b++)
        if (comm->bank[b].call && comm->bank[b].run.program->bound->wire)
            return true;
    return false;
}

/* Comms without calls leave the list when they are found so: mostly the next call has come before. */
uint32_t tu_progress(tutti_job *job) {
    tutti_comm **link = &job->active, *comm;
    uint32_t moved = 0;
    bool wire = false;
    while ((comm = *link)) {
        if (is_idle(comm)) {
            *link = comm->next_active;
            comm->active = false;
            continue;
        }
        moved += advance(comm);
        wire = wire || (job->wire && wire_awaited(comm));
        link = &comm->next_active;
    }
    if (wire)
        moved += (uint32_t)job->wire->ops->poll(job->wire);
    return moved;
}

/* ---- waiting ---- */

bool tu_wait_a_bit(tutti_job *job, bool moved) {
    const struct tu_hooks *hooks = job->env.hooks;
    if (hooks && hooks->idle)
        return !moved && hooks->idle(hooks->context);
    return moved ? tu_wait_moved(&job->waiter) : tu_wait_step(&job->waiter);
}

/* While a call spins, it looks at the cell at which its run is stuck. True if that has changed. */
static bool has_come(tutti_job *job, const struct tu_call *call) {
    if (call->state != TU_CALL_RUNNING || !tu_wait_spins(&job->waiter) || job->env.hooks)
        return false;
    const struct tu_stuck *stuck = &call->bank->run.stuck;
    for (int i = 0; stuck->cell && i < LOOKS; i++) {
        tu_line_fetch(stuck->cell, 1, stuck->more);
        if (tu_line_header(stuck->cell).flag != stuck->header.flag)
            return true;
        tu_pause();
    }
    return false;
}

tutti_status tu_call_wait(tutti_job *job, struct tu_call *call) {
    if (call->state == TU_CALL_DONE)
        return call->status;
    tu_wait_begin(&job->waiter);
    for (;;) {
        uint32_t moved =
            has_come(job, call) ? advance_bank(call->comm, call->bank) : tu_progress(job);
        if (call->state == TU_CALL_DONE)
            return call->status;
        if (tu_wait_a_bit(job, moved != 0) && call->state != TU_CALL_DONE)
            tu_watch(job, call);
    }
}

void tu_calls_end(tutti_comm *comm, tutti_status status) {
    for (uint32_t b = 0; b < comm->banks; b++)
        if (comm->bank[b].call)
            retire(comm, &comm->bank[b], status);
    while (comm->first) {
        struct tu_call *call = comm->first;
        comm->first = call->next;
        finish(call, status);
    }
    comm->last = NULL;
}
