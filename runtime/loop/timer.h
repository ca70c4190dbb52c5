/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Timers by time due: a pairing heap made of the timers themselves, so that setting one cannot fail. The heap is a
 * pointer to its first; every timer knows the pointer that points to it.
 */
#ifndef LOOP_TIMER_H
#define LOOP_TIMER_H

#include "loop.h"

void timers_insert(struct loop_timer **heap, struct loop_timer *t);
/* @t is set. Amortised logarithmic. */
void timers_remove(struct loop_timer *t);

#endif
