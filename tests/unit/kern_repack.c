// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Types and sizes, f16 conversion over all its values, and rows of repacked matrices against a plain reading. */
#include "kern_test.h"

/* The format's definition, in f64, where all of it is exact. */
static double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 0x3ff;
	double v = e == 31 ? (m ? NAN : INFINITY) : ldexp(e ? m + 1024 : m, (e ? e : 1) - 25);

	return h & 0x8000 ? -v : v;
}

static uint16_t nearest_half(double x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	int e;

	x = fabs(x);
	if (x >= 65520)
		return sign | 0x7c00;
	e = x < 0x1p-14 ? -14 : ilogb(x);
	/* mantissa and exponent carry into each other */
	return sign | (uint16_t)((e + 14) * 1024 + (int)rint(ldexp(x, 10 - e)));
}

static int halves(void)
{
	uint32_t h;
	int good = 1;

	for (h = 0; h < 65536; h++) {
		float want = (float)half_value((uint16_t)h), got = kern_f16_to_f32((uint16_t)h);

		good &= same(&want, &got, 1);
		/* NaN comes back as some NaN */
		good &= isnan(want) ? (kern_f16_from_f32(want) & 0x7fff) > 0x7c00 : kern_f16_from_f32(want) == h;
	}
	return good;
}

static int half_of(float x)
{
	uint16_t got = kern_f16_from_f32(x);

	if (isnan(x) ? (got & 0x7fff) > 0x7c00 : got == nearest_half(x))
		return 1;
	printf("# %a gives %04x, not %04x\n", x, got, nearest_half(x));
	return 0;
}

/* Random floats, and those in the middle between two halves with their neighbours. */
static int floats_to_halves(void)
{
	uint32_t i, u;
	int good = 1;
	float x;

	for (i = 0; i < 2000000 && good; i++) {
		u = (uint32_t)rnd(&seed);
		if (i & 1)
			u = (u & 0x80000000) | (0x66 + (u >> 8) % 42) << 23 | (u & 0x7fffff);
		memcpy(&x, &u, 4);
		good &= half_of(x);
	}
	for (i = 0; i < 0x7c00 && good; i++) {
		x = (float)(((double)kern_f16_to_f32((uint16_t)i) +
			     (i == 0x7bff ? 65536.0 : (double)kern_f16_to_f32((uint16_t)(i + 1)))) / 2);
		good &= half_of(x) && half_of(-x) && half_of(nextafterf(x, 0)) && half_of(nextafterf(x, 1e9f));
	}
	return good;
}

/* Reads one row as the file format says, written apart from the library. */
static void plain_row(enum kern_type type, const uint8_t *p, uint32_t cols, float *y)
{
	uint32_t i;
	uint16_t h;
	double d, m;
	int q = 0;

	for (i = 0; i < cols; i++) {
		switch ((uint32_t)type) {
		case KERN_F32:
			memcpy(y + i, p + i * 4, 4);
			break;
		case KERN_F16:
			memcpy(&h, p + i * 2, 2);
			y[i] = (float)half_value(h);
			break;
		case KERN_BF16:
			memset(y + i, 0, 4);
			memcpy((char *)(y + i) + 2, p + i * 2, 2);
			break;
		default:
			/* exact in f64, so one rounding */
			format_read(type, p, i, half_value, &q, &d, &m);
			y[i] = (float)(form_of(type).second ? d * q + m : d * q);
		}
	}
}

static int round_trip(enum kern_type type, enum kind kind)
{
	uint32_t rows = between(1, 60), cols = some_cols(type, 1, 9, 100), r;
	uint8_t *file = file_matrix(type, rows, cols, kind);
	struct kern_weight w = weight_from(type, rows, cols, file);
	float *got = floats(cols), *want = floats(cols);
	int good = 1;

	for (r = 0; r < rows && good; r++) {
		kern_row_get(&w, r, got);
		plain_row(type, file + r * kern_row_bytes(type, cols), cols, want);
		good &= same(want, got, cols);
	}
	free(w.data), free(file), free(got), free(want);
	return good;
}

/* The repacked matrix is no larger than the file's but for the padding. */
static int sizes(void)
{
	int good = 1, i, k;

	for (k = 0; k < 200; k++) {
		uint32_t rows = between(1, 5000) * 16, cols = between(1, 500) * 32;

		for (i = 0; i < N_TYPES; i++) {
			if (cols % kern_type_block(all_types[i])) {
				good &= !kern_row_bytes(all_types[i], cols);
				continue;
			}
			good &= kern_weight_bytes(all_types[i], rows, cols) == rows * kern_row_bytes(all_types[i], cols);
		}
		good &= kern_weight_bytes(KERN_Q8_0, rows - 15, cols) == kern_weight_bytes(KERN_Q8_0, rows, cols);
		good &= kern_weight_bytes(KERN_F32, rows, cols - 7) == kern_weight_bytes(KERN_F32, rows, cols);
	}
	/* more than 4 GiB */
	good &= kern_weight_bytes(KERN_F16, 262144, 16384) == 8ull << 30;
	return good;
}

int main(int argc, char **argv)
{
	int i, kind, k, good;

	seed = tap_seed(argc, argv);
	for (good = 1, i = 0; i < N_TYPES; i++)
		good &= kern_type_supported(all_types[i]) && strstr(", " KERN_TYPES ",", kern_type_name(all_types[i]));
	ok(good, "types that are supported, and their list");
	ok(!kern_type_supported(4) && !kern_type_supported(10) && !kern_type_supported(23) && !kern_type_supported(31) && !kern_type_supported(1u << 31),
	   "types that are not");
	ok(!strcmp(kern_type_name(8), "Q8_0") && !strcmp(kern_type_name(14), "Q6_K") && !strcmp(kern_type_name(30), "BF16") &&
		   !strcmp(kern_type_name(4), "unknown") && !strcmp(kern_type_name(UINT32_MAX), "unknown"),
	   "names of types");
	ok(kern_row_bytes(KERN_Q8_0, 64) == 68 && kern_row_bytes(KERN_Q4_0, 64) == 36 && kern_row_bytes(KERN_Q4_1, 64) == 40 &&
		   kern_row_bytes(KERN_BF16, 7) == 14 && kern_row_bytes(KERN_F32, 7) == 28,
	   "bytes of a row");
	ok(!kern_row_bytes(KERN_Q8_0, 33) && !kern_row_bytes(KERN_Q4_0, 16) && !kern_row_bytes(KERN_Q4_1, 63) &&
		   !kern_row_bytes(KERN_Q4_K, 128) && kern_row_bytes(KERN_Q6_K, 512) == 420,
	   "no row of a cut block");
	ok(sizes(), "sizes of repacked matrices");
	ok(halves(), "all 65,536 halves");
	ok(floats_to_halves(), "floats to halves");
	for (i = 0; i < N_TYPES; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			for (good = 1, k = 0; k < 10 && good; k++)
				good = round_trip(all_types[i], kind);
			ok(good, "repacked rows of %s: %s", kern_type_name(all_types[i]), kind_names[kind]);
		}
	}
	return done();
}
