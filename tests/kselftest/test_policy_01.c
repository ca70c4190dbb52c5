// SPDX-License-Identifier: GPL-2.0
/*
 * Policies: BPF programs give pages their classes, and so decide which cached page goes first. One at a
 * time; what they answer can be wrong, but not unsafe; they come and go while pages do.
 */
#include <pthread.h>

#include "ks.h"

#define POOL "policy"
#define PAGE (64u << 10)
#define EXTENTS 4
#define PAGES (EXTENTS * (EXTENT / PAGE))
#define CHAIN 8
#define HITS 16

static const char *bpftool;
static u64 seed;

static const char *in_force(void)
{
	static char text[200];
	int n = ks_read_file("/sys/module/kvslab/parameters/policy", text, sizeof(text));

	if (n < 0)
		return "?";
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* A command's exit status; what it said is in said.txt. */
static int run(const char *program, const char *words)
{
	char command[300];
	int r;

	snprintf(command, sizeof(command), "%s %s >said.txt 2>&1", program, words);
	r = system(command);
	return WIFEXITED(r) ? WEXITSTATUS(r) : 128 + WTERMSIG(r);
}

static bool says(const char *words)
{
	char text[500];

	return ks_read_file("said.txt", text, sizeof(text)) > 0 && strstr(text, words);
}

static void said(void)
{
	char line[300];
	FILE *f = fopen("said.txt", "r");

	while (f && fgets(line, sizeof(line), f))
		note("%.*s", (int)strcspn(line, "\n"), line);
	if (f)
		fclose(f);
}

/*
 * bpftool up to 7.8 does what it is told and then dies of a signal, when it wants to print the name of a type
 * that the kernel's own BTF does not have. So its status tells nothing, and what is in force tells all.
 */
static bool load(const char *file, const char *name)
{
	char words[100];

	snprintf(words, sizeof(words), "struct_ops register %s.bpf.o", file);
	run(bpftool, words);
	return !strcmp(in_force(), name);
}

static bool unload(const char *name)
{
	char words[100];

	snprintf(words, sizeof(words), "struct_ops unregister name %s", name);
	run(bpftool, words);
	return !strcmp(in_force(), "lru");
}

static void chain_hashes(u8 hashes[][HASH], u64 name)
{
	u32 i;

	for (i = 0; i < CHAIN; i++)
		ks_hash(hashes[i], name, i);
}

/* Seals a chain and drops it. */
static bool put(struct ks_client *k, u64 name, u8 priority)
{
	struct kvslab_seal_entry s[CHAIN] = { 0 };
	u8 hashes[CHAIN][HASH];
	u64 pages[CHAIN];
	u32 i;

	chain_hashes(hashes, name);
	if (ks_alloc(k->fd, k->c.id, pages, CHAIN, 0) != CHAIN)
		return false;
	for (i = 0; i < CHAIN; i++) {
		s[i].page = pages[i];
		memcpy(s[i].hash, hashes[i], HASH);
		if (i)
			memcpy(s[i].parent, hashes[i - 1], HASH);
		else
			s[i].flags = KVSLAB_SEAL_FIRST;
		s[i].depth = i;
		s[i].priority = priority;
	}
	if (ks_seal(k->fd, s, CHAIN) < 0)
		return false;
	for (i = 0; i < CHAIN; i++)
		pages[i] = s[i].page;
	return !ks_free(k->fd, pages, CHAIN);
}

/* How many pages of a chain are there. */
static long find(struct ks_client *k, u64 name)
{
	u8 hashes[CHAIN][HASH];
	u64 pages[CHAIN];
	long n;

	chain_hashes(hashes, name);
	n = ks_lookup(k->fd, k->c.id, (const u8(*)[HASH])hashes, pages, CHAIN);
	if (n > 0 && ks_free(k->fd, pages, n))
		return -1;
	return n;
}

/*
 * A child, so that the control node is closed after it. Chain 1, found often, then chain 2, found never;
 * then so many pages are wanted that half of the two must go. 16 times what is left of the first, and
 * what is left of the second; 255: something went wrong.
 */
static int order(void *priority_)
{
	static u64 pages[PAGES];
	u8 priority = (uintptr_t)priority_;
	u32 i, n = PAGES - CHAIN;
	struct ks_client k;
	long left[2] = { 0 };
	bool good;

	if (ks_pool(POOL, 0, EXTENTS * EXTENT, 0600) || ks_client(&k, POOL, PAGE))
		return 255;
	good = put(&k, 1, priority);
	for (i = 0; i < HITS; i++)
		good = good && find(&k, 1) == CHAIN;
	good = good && put(&k, 2, 0);
	good = good && ks_alloc(k.fd, k.c.id, pages, n, 0) == (long)n && !ks_free(k.fd, pages, n);
	left[0] = find(&k, 1);
	left[1] = find(&k, 2);
	good = good && left[0] >= 0 && left[1] >= 0 && ks_adds_up(k.fd);
	ks_close(&k);
	return ks_destroy(POOL, 0) || !good ? 255 : left[0] * 16 + left[1];
}

static void expect(const char *policy, int first, int second, u8 priority, const char *what)
{
	int r = ks_wait(ks_child(order, (void *)(uintptr_t)priority));

	ok(!strcmp(in_force(), policy) && r == first * 16 + second,
	   "%s: %s is in force, %d and %d of %d pages are left", what, in_force(), r / 16, r % 16, CHAIN);
}

static bool unloads(void *arg)
{
	(void)arg;
	return !ks_unload();
}

/* ---- load ---- */

static volatile bool stop;

struct worker {
	pthread_t thread;
	u64 seed;
	long calls, bad;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ks_client k;
	u64 pages[16];
	long n;

	if (ks_client(&k, POOL, PAGE)) {
		w->bad = 1;
		return NULL;
	}
	while (!stop) {
		if (rnd(&w->seed) % 3) {
			/* Of others it may be going, but what is there is a run. */
			w->bad += find(&k, rnd(&w->seed) % 24) < 0;
		} else if (rnd(&w->seed) % 2) {
			w->bad += !put(&k, rnd(&w->seed) % 24, rnd(&w->seed) % 8);
		} else {
			n = ks_alloc(k.fd, k.c.id, pages, 1 + rnd(&w->seed) % 16, KVSLAB_ALLOC_PARTIAL);
			w->bad += n < 0 || ks_free(k.fd, pages, n);
		}
		w->calls++;
	}
	ks_close(&k);
	return NULL;
}

static void under_load(void)
{
	static const char *const names[] = { "keep_prefixes", "nonsense" };
	struct worker w[2] = { 0 };
	char walk[200] = "";
	long bad = 0, calls = 0;
	u32 i, rounds = ks_long() ? 40 : 4;
	struct ks_client k;

	must(!ks_pool(POOL, 0, EXTENTS * EXTENT, 0600) && !ks_client(&k, POOL, PAGE), "a pool");
	for (i = 0; i < COUNT(w); i++) {
		w[i].seed = rnd(&seed);
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (i = 0; i < rounds; i++) {
		if (!load(names[i % 2], names[i % 2])) {
			said();
			bad++;
		}
		usleep(rnd(&seed) % 300000);
		if (!unload(names[i % 2])) {
			said();
			bad++;
		}
	}
	stop = true;
	for (i = 0; i < COUNT(w); i++) {
		pthread_join(w[i].thread, NULL);
		calls += w[i].calls;
		bad += w[i].bad;
	}
	ok(!bad && calls > 100, "policies come and go %u times beside %ld calls; %ld went wrong", rounds,
	   calls, bad);
	ks_read_file("/sys/kernel/debug/kvslab/check", walk, sizeof(walk));
	ok(!strncmp(walk, "ok", 2) && ks_adds_up(k.fd), "and all is as it should be: %.100s", walk);
	ks_close(&k);
	ks_destroy(POOL, 0);
}

/* What a policy answers above the highest class is that class; the debug walk looks at each. */
static void nonsense(void)
{
	char walk[200] = "";
	struct ks_client k;
	long i, bad = 0;

	must(!ks_pool(POOL, 0, EXTENTS * EXTENT, 0600) && !ks_client(&k, POOL, PAGE), "a pool");
	ok(load("nonsense", "nonsense"), "a policy that answers anything is registered");
	for (i = 0; i < 3000; i++) {
		bad += !put(&k, rnd(&seed) % 24, 0);
		bad += find(&k, rnd(&seed) % 24) < 0;
	}
	ks_read_file("/sys/kernel/debug/kvslab/check", walk, sizeof(walk));
	ok(!bad && !strncmp(walk, "ok", 2) && ks_adds_up(k.fd), "it does no harm in %ld calls: %.100s", i,
	   walk);
	ok(unload("nonsense"), "and goes");
	ks_close(&k);
	ks_destroy(POOL, 0);
}

int main(int argc, char **argv)
{
	seed = ks_seed(argc, argv);
	if (!strncmp(in_force(), "none", 4)) {
		note("%s", in_force());
		ok(run("kvslab", "pool policy") == 1 && says("too old for policies"),
		   "where there can be no policy, the command says that the kernel is too old");
		unlink("said.txt");
		return done();
	}
	if (access("keep_prefixes.bpf.o", R_OK) || access("nonsense.bpf.o", R_OK))
		skip_all("the policies were not built: clang is missing");
	bpftool = access("bpftool/bpftool", X_OK) ? "bpftool" : "bpftool/bpftool";
	if (run(bpftool, "version"))
		skip_all("there is no bpftool");
	must(!ks_unload() && !ks_load("extents=4"), "the module has an arena of four extents");

	expect("lru", 0, CHAIN, 0, "without a policy the chain used last stays");
	expect("lru", CHAIN, 0, 3, "without a policy SEAL's priority counts");
	if (!ok(load("keep_prefixes", "keep_prefixes"), "bpftool registers keep_prefixes"))
		said();
	ok(!run("kvslab", "pool policy") && says("keep_prefixes"), "kvslab pool policy names it");
	expect("keep_prefixes", CHAIN, 0, 0, "the chain found often stays");
	ok(!load("lru", "lru_bpf") && !strcmp(in_force(), "keep_prefixes") && says("busy"),
	   "a second policy is refused: EBUSY");
	ok(ks_unload(), "rmmod is refused while a policy is there");
	ok(unload("keep_prefixes"), "bpftool unregisters it");
	expect("lru", 0, CHAIN, 0, "then the chain used last stays again");
	ok(load("lru", "lru_bpf"), "bpftool registers lru");
	expect("lru_bpf", 0, CHAIN, 3, "under which priorities do not count");
	ok(unload("lru"), "and unregisters it");
	ok(!load("sleeps", "sleeps") && !strcmp(in_force(), "lru"), "a policy that may sleep is refused");
	nonsense();
	under_load();
	close(ks_control());
	ok(ks_until(unloads, NULL, 20) && !ks_load("extents=160"), "without a policy the module goes");
	unlink("said.txt");
	return done();
}
