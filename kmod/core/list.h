/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Rings of links with a head, as everywhere. A link that is in no list points to itself. */
#ifndef KVC_LIST_H
#define KVC_LIST_H

#include "port.h"

struct kvc_list {
	struct kvc_list *next, *prev;
};

static inline void kvc_list_init(struct kvc_list *l)
{
	l->next = l->prev = l;
}

static inline bool kvc_list_empty(const struct kvc_list *l)
{
	return l->next == l;
}

static inline void kvc_list_add(struct kvc_list *l, struct kvc_list *after)
{
	l->next = after->next;
	l->prev = after;
	after->next->prev = l;
	after->next = l;
}

static inline void kvc_list_add_tail(struct kvc_list *l, struct kvc_list *head)
{
	kvc_list_add(l, head->prev);
}

static inline void kvc_list_unlink(struct kvc_list *l) /* and leave it dangling */
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
}

static inline void kvc_list_del(struct kvc_list *l)
{
	kvc_list_unlink(l);
	kvc_list_init(l);
}

#define kvc_list_for(l, head) for ((l) = (head)->next; (l) != (head); (l) = (l)->next)
#define kvc_list_for_safe(l, n, head) \
	for ((l) = (head)->next, (n) = (l)->next; (l) != (head); (l) = (n), (n) = (l)->next)

#endif
