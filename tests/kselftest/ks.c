// SPDX-License-Identifier: GPL-2.0
#include <liburing.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "ks.h"

/* ---- TAP ---- */

static int tap_n, tap_failed;
static char made[256][KVSLAB_NAME_SIZE]; /* pools that are there */
static int nr_made;
static pid_t first; /* who does the talking */

static void say(const char *head, const char *fmt, va_list ap)
{
	char line[600];
	int n = snprintf(line, sizeof(line), "%s", head);

	n += vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	/* One write: children speak too. */
	if (write(1, line, n) != n)
		_exit(100);
}

void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("# ", fmt, ap);
	va_end(ap);
}

static int vok(int good, const char *fmt, va_list ap)
{
	char head[40];

	tap_n++;
	if (!good)
		tap_failed++;
	snprintf(head, sizeof(head), "%sok %d - ", good ? "" : "not ", tap_n);
	say(head, fmt, ap);
	return good;
}

int ok(int good, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vok(good, fmt, ap);
	va_end(ap);
	return good;
}

void must(int good, const char *fmt, ...)
{
	va_list ap;
	int error = errno;

	if (good)
		return;
	va_start(ap, fmt);
	if (first && getpid() != first) {
		say("# child: ", fmt, ap);
		_exit(101);
	}
	vok(0, fmt, ap);
	va_end(ap);
	note("errno was %d (%s); the rest was not tried", error, strerror(error));
	exit(done());
}

void skip_all(const char *why)
{
	char line[300];

	if (write(1, line, snprintf(line, sizeof(line), "1..0 # SKIP %s\n", why)) < 0)
		exit(100);
	exit(0);
}

int done(void)
{
	char line[40];

	while (nr_made) {
		int r = ks_destroy(made[nr_made - 1], 0);

		if (r) {
			ok(0, "%s can be destroyed at the end: %s", made[nr_made - 1], strerror(-r));
			if (ks_destroy(made[nr_made - 1], KVSLAB_DESTROY_FORCE))
				nr_made--;
		}
	}
	if (write(1, line, snprintf(line, sizeof(line), "1..%d\n", tap_n)) < 0)
		return 100;
	return tap_failed ? 1 : 0;
}

u64 ks_seed(int argc, char **argv)
{
	const char *s = argc > 1 ? argv[1] : getenv("KVSLAB_SEED");
	struct timespec t;
	u64 seed;

	clock_gettime(CLOCK_REALTIME, &t);
	seed = s ? strtoull(s, NULL, 0) : (u64)t.tv_sec * 1000000007u + (u64)t.tv_nsec;
	note("seed %llu", (unsigned long long)seed);
	return seed;
}

/* splitmix64 */
u64 rnd(u64 *s)
{
	u64 z = (*s += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double ks_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

bool ks_long(void)
{
	const char *s = getenv("KVSLAB_LONG");

	return s && *s;
}

/* ---- commands ---- */

__thread enum ks_via ks_via;
static __thread struct io_uring ring;
static __thread pid_t ring_of; /* a child makes its own */

long ks_ioctl(int fd, u32 op, const struct kvslab_cmd *cmd)
{
	long r = ioctl(fd, op, cmd);

	return r < 0 ? -errno : r;
}

long ks_ring(int fd, u32 op, const struct kvslab_cmd *cmd)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	pid_t me = syscall(SYS_gettid);
	long r;

	if (ring_of != me) {
		r = io_uring_queue_init(4, &ring, 0);
		if (r)
			return r;
		ring_of = me;
	}
	sqe = io_uring_get_sqe(&ring);
	if (!sqe)
		return -EBUSY;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->off = op; /* cmd_op, in headers that know it */
	/* 16 bytes of command from byte 48 of the entry on; NULL: as they are */
	if (cmd)
		memcpy((u8 *)sqe + 48, cmd, sizeof(*cmd));
	r = io_uring_submit_and_wait(&ring, 1);
	if (r < 0)
		return r;
	r = io_uring_wait_cqe(&ring, &cqe);
	if (r)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return r;
}

long ks_cmd(int fd, u32 op, void *args, u32 size)
{
	struct kvslab_cmd cmd = { .args = (uintptr_t)args, .size = size };

	return ks_via == KS_RING ? ks_ring(fd, op, &cmd) : ks_ioctl(fd, op, &cmd);
}

int ks_control(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/kvslab/control", O_RDWR | O_CLOEXEC);
	if (!first)
		first = getpid();
	return fd < 0 ? -errno : fd;
}

int ks_pool(const char *name, u64 min, u64 max, u32 mode)
{
	struct kvslab_args_create a = { .min = min, .max = max, .mode = mode, .node = -1 };
	int fd = ks_control();
	long r;

	if (fd < 0)
		return fd;
	snprintf(a.name, sizeof(a.name), "%s", name);
	r = ks_cmd(fd, KVSLAB_CTL_CREATE, &a, sizeof(a));
	if (!r)
		snprintf(made[nr_made++], KVSLAB_NAME_SIZE, "%s", name);
	return r;
}

int ks_destroy(const char *name, u32 flags)
{
	struct kvslab_args_destroy a = { .flags = flags };
	long r;
	int i;

	snprintf(a.name, sizeof(a.name), "%s", name);
	r = ks_cmd(ks_control(), KVSLAB_CTL_DESTROY, &a, sizeof(a));
	for (i = 0; !r && i < nr_made; i++) {
		if (!strcmp(made[i], name)) {
			memmove(made[i], made[i + 1], (nr_made - i - 1) * sizeof(made[0]));
			nr_made--;
			break;
		}
	}
	return r;
}

int ks_open(const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s%s", *name == '/' ? "" : "/dev/kvslab/", name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

long ks_alloc(int fd, u32 cache, u64 *pages, u32 n, u32 flags)
{
	struct kvslab_args_alloc a = {
		.pages = (uintptr_t)pages, .cache = cache, .count = n, .flags = flags
	};

	return ks_cmd(fd, KVSLAB_CMD_ALLOC, &a, sizeof(a));
}

static long of_pages(int fd, u32 op, const u64 *pages, u32 n)
{
	struct kvslab_args_pages a = { .pages = (uintptr_t)pages, .count = n };

	return ks_cmd(fd, op, &a, sizeof(a));
}

long ks_free(int fd, const u64 *pages, u32 n)
{
	return of_pages(fd, KVSLAB_CMD_FREE, pages, n);
}

long ks_get(int fd, const u64 *pages, u32 n)
{
	return of_pages(fd, KVSLAB_CMD_GET, pages, n);
}

long ks_seal(int fd, struct kvslab_seal_entry *seals, u32 n)
{
	struct kvslab_args_seal a = { .seals = (uintptr_t)seals, .count = n };

	return ks_cmd(fd, KVSLAB_CMD_SEAL, &a, sizeof(a));
}

long ks_lookup(int fd, u32 cache, const u8 (*hashes)[HASH], u64 *pages, u32 n)
{
	struct kvslab_args_lookup a = {
		.hashes = (uintptr_t)hashes, .pages = (uintptr_t)pages, .cache = cache, .count = n
	};

	return ks_cmd(fd, KVSLAB_CMD_LOOKUP, &a, sizeof(a));
}

int ks_stat(int fd, struct kvslab_stat_pool *pool)
{
	struct kvslab_args_stat a = { 0 };
	long r = ks_cmd(fd, KVSLAB_CMD_STAT, &a, sizeof(a));

	*pool = a.pool;
	return r < 0 ? r : 0;
}

u32 ks_events(int fd)
{
	struct kvslab_args_events a = { 0 };

	return ks_cmd(fd, KVSLAB_CMD_EVENTS, &a, sizeof(a)) < 0 ? 0 : a.events;
}

void ks_hash(u8 hash[HASH], u64 a, u64 b)
{
	u64 words[4] = { a, b, a ^ b << 32, 0x6b76736c61620001 };

	memcpy(hash, words, HASH);
}

long ks_seal_one(int fd, u64 *page, u64 a, u64 b)
{
	struct kvslab_seal_entry s = { .page = *page, .flags = KVSLAB_SEAL_FIRST };
	long r;

	ks_hash(s.hash, a, b);
	r = ks_seal(fd, &s, 1);
	*page = s.page;
	return r;
}

/* ---- a client ---- */

void *ks_map(int fd, u32 arena, u64 window, u64 offset, u64 size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, KVSLAB_MAP_ARENA(arena) | window | offset);

	return p == MAP_FAILED ? NULL : p;
}

int ks_client(struct ks_client *k, const char *pool, u32 page_size)
{
	long r;

	memset(k, 0, sizeof(*k));
	k->fd = ks_open(pool, O_RDWR);
	if (k->fd < 0)
		return k->fd;
	k->c.page_size = page_size;
	r = ks_cmd(k->fd, KVSLAB_CMD_CACHE, &k->c, sizeof(k->c));
	if (r < 0)
		goto bad;
	k->r = ks_map(k->fd, k->c.arena, KVSLAB_MAP_READ, 0, k->c.arena_size, PROT_READ);
	r = -errno;
	if (!k->r)
		goto bad;
	k->w = ks_map(k->fd, k->c.arena, KVSLAB_MAP_WRITE, 0, k->c.arena_size,
		      PROT_READ | PROT_WRITE);
	r = -errno;
	if (!k->w) {
		munmap(k->r, k->c.arena_size);
		goto bad;
	}
	return 0;
bad:
	close(k->fd);
	return r;
}

void ks_close(struct ks_client *k)
{
	munmap(k->r, k->c.arena_size);
	munmap(k->w, k->c.arena_size);
	close(k->fd);
}

u8 *ks_at(const struct ks_client *k, u8 *window, u64 page)
{
	return window + (u64)KVSLAB_HANDLE_EXTENT(page) * EXTENT +
	       (u64)KVSLAB_HANDLE_INDEX(page) * k->c.page_size;
}

void ks_fill(void *page, u32 size, u64 mark)
{
	u64 *word = page;
	u32 i;

	for (i = 0; i < size / 8; i++)
		word[i] = mark + i;
}

bool ks_filled(const void *page, u32 size, u64 mark)
{
	const u64 *word = page;
	u32 i;

	for (i = 0; i < size / 8; i++)
		if (word[i] != mark + i) {
			note("word %u of %p is %llx, not %llx", i, page, (unsigned long long)word[i],
			     (unsigned long long)mark + i);
			return false;
		}
	return true;
}

bool ks_adds_up(int fd)
{
	struct kvslab_stat_cache caches[16];
	struct kvslab_args_stat a = { .caches = (uintptr_t)caches, .nr_caches = COUNT(caches) };
	struct kvslab_stat_pool *p = &a.pool;
	u64 pages = 0, slabs = 0, capacity = 0;
	u32 i;
	long r = ks_cmd(fd, KVSLAB_CMD_STAT, &a, sizeof(a));

	if (r < 0) {
		note("STAT: %s", strerror(-r));
		return false;
	}
	for (i = 0; i < a.nr_caches; i++) {
		struct kvslab_stat_cache *c = &caches[i];

		pages += c->free + c->private_pages + c->moving + c->sealed + c->cached + c->quarantined;
		capacity += c->slabs * c->pages_per_slab;
		slabs += c->slabs;
	}
	if (pages != capacity || slabs != p->slabs ||
	    pages != p->free + p->private_pages + p->moving + p->sealed + p->cached + p->quarantined) {
		note("%llu pages in %llu places, %llu slabs of %llu", (unsigned long long)pages,
		     (unsigned long long)capacity, (unsigned long long)slabs,
		     (unsigned long long)p->slabs);
		return false;
	}
	if (p->moving) {
		note("%llu pages are moving", (unsigned long long)p->moving);
		return false;
	}
	return true;
}

/* ---- faults and children ---- */

static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t guarded;

static void on_fault(int sig)
{
	if (guarded)
		siglongjmp(back, sig);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_faults(void)
{
	static int caught;
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	if (caught)
		return;
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	caught = 1;
}

int ks_copy(void *to, const void *from, size_t n)
{
	int sig;

	catch_faults();
	sig = sigsetjmp(back, 1);
	if (!sig) {
		guarded = 1;
		memcpy(to, from, n);
	}
	guarded = 0;
	return sig;
}

int ks_read(const volatile void *p)
{
	u8 byte;

	return ks_copy(&byte, (const void *)p, 1);
}

int ks_write(volatile void *p, u8 value)
{
	return ks_copy((void *)p, &value, 1);
}

u64 ks_frame(const void *p)
{
	u64 entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (pread(fd, &entry, 8, (uintptr_t)p / FRAME * 8) != 8)
		entry = 0;
	close(fd);
	return entry >> 63 ? entry & ((1ull << 55) - 1) : 0;
}

pid_t ks_child(int (*run)(void *), void *arg)
{
	pid_t parent = getpid(), pid;

	if (!first)
		first = parent;
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(102);
	_exit(run(arg));
}

int ks_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool ks_until(bool (*holds)(void *), void *arg, double seconds)
{
	double end = ks_now() + seconds;

	while (!holds(arg)) {
		if (ks_now() > end)
			return false;
		usleep(2000);
	}
	return true;
}

int ks_read_file(const char *path, char *text, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = read(fd, text, n - 1);
	if (r < 0)
		r = -errno;
	else
		text[r] = 0;
	close(fd);
	return r;
}

int ks_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return r;
}

int ks_load(const char *parameters)
{
	int fd = open("/lib/modules/kvslab.ko", O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return r;
}

int ks_unload(void)
{
	return syscall(SYS_delete_module, "kvslab", O_NONBLOCK) ? -errno : 0;
}
