// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "prep.h"

#include <string.h>

static void *work(void *arg)
{
	struct prep *p = arg;
	struct prep_job *job;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (!p->first && !p->ending)
			pthread_cond_wait(&p->changed, &p->lock);
		job = p->first;
		if (!job)
			break;
		p->first = job->next;
		if (!p->first)
			p->end = &p->first;
		pthread_mutex_unlock(&p->lock);
		job->run(job);
		pthread_mutex_lock(&p->lock);
		job->next = NULL;
		*p->ran_end = job;
		p->ran_end = &job->next;
		loop_wake(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void finish(struct loop_wake *w)
{
	struct prep *p = (struct prep *)((char *)w - offsetof(struct prep, wake));
	struct prep_job *job, *next;

	pthread_mutex_lock(&p->lock);
	job = p->ran;
	p->ran = NULL;
	p->ran_end = &p->ran;
	pthread_mutex_unlock(&p->lock);
	for (; job; job = next) {
		next = job->next;
		job->done(job);
	}
}

int prep_open(struct prep *p, struct kvslab_loop *loop)
{
	int rc;

	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	p->end = &p->first;
	p->ran_end = &p->ran;
	p->wake.woken = finish;
	loop_wake_open(loop, &p->wake);
	rc = pthread_create(&p->thread, NULL, work, p);
	if (rc) {
		loop_wake_close(&p->wake);
		pthread_cond_destroy(&p->changed);
		pthread_mutex_destroy(&p->lock);
	}
	return -rc;
}

void prep_add(struct prep *p, struct prep_job *job)
{
	pthread_mutex_lock(&p->lock);
	job->next = NULL;
	*p->end = job;
	p->end = &job->next;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void prep_close(struct prep *p)
{
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	finish(&p->wake);
	loop_wake_close(&p->wake);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
}
