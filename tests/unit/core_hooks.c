// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the core's hooks tell adds up to its counts, after random calls. argv: seed, rounds. */
#include "tests/lib/core_driver.h"
#include "tests/lib/tap.h"
#include "state.h"

struct seen core_seen[SEEN_POOLS];

static bool agrees(struct driver *d, u32 p)
{
	struct seen *s = &core_seen[p + 1];
	struct kvc_stat stat;
	u32 i, idle = 0;

	if (!d->pool[p])
		return true;
	kvc_stat(d->pool[p], &stat);
	for (i = 0; i < KVC_CACHES_MAX && d->pool[p]->cache[i]; i++)
		idle += d->pool[p]->cache[i]->nr_idle;
	if (!s->wrong && s->privates == (s64)stat.private_pages &&
	    s->indexed == (s64)(stat.sealed + stat.cached) && s->slabs == (s64)stat.slabs &&
	    s->held == (s64)stat.held && s->run_allocs == s->allocs && s->run_frees == s->frees && s->idle == idle && s->clients == (s64)stat.clients &&
	    s->seals == stat.seals && s->refused == stat.failed &&
	    s->lookups == stat.lookups && s->asked == stat.lookup_asked &&
	    s->found == stat.lookup_hits && s->looked_up == s->found && s->got == s->gets &&
	    s->quarantined == (s64)stat.quarantined && s->evictions == stat.evictions)
		return true;
	printf("# pool %u: private %lld of %llu, indexed %lld of %llu, slabs %lld of %llu, held %lld of %llu, idle %lld of %u, "
	       "clients %lld of %llu, quarantined %lld of %llu, looked up %llu of %llu, got %llu of %llu, refused %llu of %llu, lookups %llu of %llu, evictions %llu of %llu%s\n",
	       p, (long long)s->privates, (unsigned long long)stat.private_pages,
	       (long long)s->indexed, (unsigned long long)(stat.sealed + stat.cached),
	       (long long)s->slabs, (unsigned long long)stat.slabs, (long long)s->held,
	       (unsigned long long)stat.held, (long long)s->idle, idle, (long long)s->clients,
	       (unsigned long long)stat.clients, (long long)s->quarantined,
	       (unsigned long long)stat.quarantined, (unsigned long long)s->looked_up,
	       (unsigned long long)s->found, (unsigned long long)s->got,
	       (unsigned long long)s->gets, (unsigned long long)s->refused,
	       (unsigned long long)stat.failed, (unsigned long long)s->lookups,
	       (unsigned long long)stat.lookups, (unsigned long long)s->evictions,
	       (unsigned long long)stat.evictions, s->wrong ? ", and one that cannot be" : "");
	return false;
}

int main(int argc, char **argv)
{
	u64 seed = tap_seed(argc, argv), seals = 0, evictions = 0, gets = 0;
	s64 quarantined = 0;
	u32 rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 10, i, p;
	struct driver *d = malloc(sizeof(*d));
	bool good = true;

	for (i = 0; good && i < rounds; i++) {
		memset(core_seen, 0, sizeof(core_seen));
		driver_init(d, rnd(&seed));
		while (good && d->calls < 2500) {
			good = driver_step(d);
			for (p = 0; p < MODEL_POOLS; p++) {
				/* A new pool begins at nothing. */
				if (!d->pool[p])
					memset(&core_seen[p + 1], 0, sizeof(core_seen[p + 1]));
				if (d->call[0].running || d->call[1].running)
					continue;
				good = good && agrees(d, p);
				seals += core_seen[p + 1].seals;
				evictions += core_seen[p + 1].evictions;
				gets += core_seen[p + 1].gets;
				quarantined += core_seen[p + 1].quarantined;
			}
		}
		good = good && driver_end(d);
		if (!good)
			printf("# call %llu: %s\n", (unsigned long long)d->calls, d->why);
	}
	ok(good, "events add up to counts on %u arenas", rounds);
	ok(seals && evictions && gets && quarantined, "and there were some");
	free(d);
	return done();
}
