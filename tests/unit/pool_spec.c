// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "runtime/pool/spec.h"
#include "tests/lib/tap.h"

static int parses(const char *s, uint64_t want)
{
	struct pool_spec spec = { 99 };

	return pool_spec_parse(&spec, s) == 0 && spec.size == want;
}

static int fails(const char *s, int want)
{
	struct pool_spec spec;

	return pool_spec_parse(&spec, s) == want;
}

static void test_random(uint64_t *seed)
{
	static const char alphabet[] = "0123456789kKmMgGtT:embedded -+.x";
	static const char units[] = "KMGT";
	char s[64];
	int i, k, bad = 0;

	for (i = 0; i < 100000; i++) {
		uint64_t n = rnd(seed) >> (rnd(seed) % 64);
		int u = (int)(rnd(seed) % 5);
		int shift = u ? u * 10 : 0;
		int want = n && n <= UINT64_MAX >> shift;

		snprintf(s, sizeof(s), "embedded:%s%llu%.1s", rnd(seed) % 8 ? "" : "000",
			 (unsigned long long)n, u ? units + u - 1 : "");
		bad += want ? !parses(s, n << shift) : !fails(s, -EINVAL);
	}
	ok(!bad, "100000 sizes with and without units");
	/* Only memory safety is looked at: any bytes may come. */
	for (i = 0; i < 100000; i++) {
		struct pool_spec spec;
		int n = (int)(rnd(seed) % 40);
		int rc;

		for (k = 0; k < n; k++)
			s[k] = rnd(seed) % 8 ? alphabet[rnd(seed) % (sizeof(alphabet) - 1)]
					     : (char)(1 + rnd(seed) % 255);
		s[n] = 0;
		if (rnd(seed) % 2)
			memcpy(s, "embedded:", 9);
		s[n] = 0;
		rc = pool_spec_parse(&spec, s);
		bad += rc && rc != -EINVAL && rc != -EOPNOTSUPP;
	}
	ok(!bad, "100000 strings of anything");
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(parses("embedded", 0), "no size");
	ok(parses("embedded:1", 1) && parses("embedded:2097152", 2097152), "bytes");
	ok(parses("embedded:512M", 512ull << 20) && parses("embedded:3K", 3072) &&
		   parses("embedded:7G", 7ull << 30) && parses("embedded:2T", 2ull << 40),
	   "units");
	ok(parses("embedded:512m", 512ull << 20) && parses("embedded:1t", 1ull << 40), "small "
										       "letters");
	ok(parses("embedded:18446744073709551615", UINT64_MAX), "2^64 - 1");
	ok(fails("embedded:18446744073709551616", -EINVAL), "2^64");
	ok(fails("embedded:99999999999999999999999", -EINVAL), "far beyond");
	ok(parses("embedded:16777215T", 16777215ull << 40) && fails("embedded:16777216T", -EINVAL),
	   "the unit overflows");
	ok(fails("embedded:0", -EINVAL) && fails("embedded:0G", -EINVAL), "nothing");
	ok(fails("embedded:", -EINVAL) && fails("embedded:M", -EINVAL), "no number");
	ok(fails("embedded:1MB", -EINVAL) && fails("embedded:1 M", -EINVAL) &&
		   fails("embedded:1M ", -EINVAL),
	   "text behind it");
	ok(fails("embedded:-1", -EINVAL) && fails("embedded:+1", -EINVAL) &&
		   fails("embedded: 1", -EINVAL) && fails("embedded:1.5G", -EINVAL) &&
		   fails("embedded:0x10", -EINVAL),
	   "other forms of numbers");
	ok(fails("", -EINVAL) && fails(NULL, -EINVAL) && fails("embedde", -EINVAL) &&
		   fails("embedded512M", -EINVAL) && fails("Embedded:1M", -EINVAL) &&
		   fails(":1M", -EINVAL),
	   "other kinds");
	ok(fails("/dev/kvslab/chat", -EOPNOTSUPP), "a device");
	test_random(&seed);
	return done();
}
