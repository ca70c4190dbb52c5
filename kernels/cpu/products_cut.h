/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A product, cut into parts: the end of avx2_products.h and of avx512_products.h, which define direct() (one part of a
 * tile and up to FEW tokens), fill_block() and through_all() (the panel), for the types that TYPES(X) lists.
 */

INLINE void direct_type(const struct part *p, enum kern_type type, uint32_t n, const int32_t *off)
{
	switch (n) {
	case 1:
		direct(p, type, 1, off);
		break;
	case 2:
		direct(p, type, 2, off);
		break;
	case 3:
		direct(p, type, 3, off);
		break;
	default:
		direct(p, type, 4, off);
	}
}

static void direct_any(const struct part *p, uint32_t n, const int32_t *off)
{
#define DIRECT(type)                           \
	case type:                             \
		direct_type(p, type, n, off); \
		break;
	switch ((uint32_t)p->type) {
		TYPES(DIRECT)
	}
}

INLINE void fill(struct panel *pl, const struct part *p, enum kern_type type)
{
	const uint8_t *tile = p->tile;
	uint32_t b, k;

	for (b = 0; b < p->blocks; tile += tile_size(type))
#pragma GCC unroll 1
		for (k = 0; k < tile_blocks(type); k++, b++)
			fill_block(pl, type, tile, k, b);
}

static void panel_any(struct panel *pl, const struct part *p, uint32_t n)
{
#define FILL(type)                   \
	case type:                   \
		fill(pl, p, type); \
		break;
	switch ((uint32_t)p->type) {
		TYPES(FILL)
	}
	if (type_scales(p->type) == 2)
		through_all(pl, p, n, 2, false);
	else if (type_min(p->type))
		through_all(pl, p, n, 1, true);
	else
		through_all(pl, p, n, 1, false);
}

/* The sum of 16 q. */
static int32_t sum_of(const int16_t *q)
{
	__m256i v = _mm256_madd_epi16(_mm256_loadu_si256((const void *)q), _mm256_set1_epi16(1));
	__m128i m = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* The part of row @row's tile that begins at block @b0, for tokens from @t0 on. */
static struct part part_of(const struct kern_weight *w, uint32_t row, uint32_t r1, uint32_t b0, uint32_t blocks,
			   const struct kern_act *x, size_t t0, float *y, size_t ldy)
{
	return (struct part){
		.type = w->type,
		.tile = weight_tile(w, row, b0),
		.q = x->q + t0 * x->ld + b0 * KERN_BLOCK,
		.d = x->d + t0 * x->ld / KERN_BLOCK + b0,
		.s = x->s + t0 * x->ld / KERN_BLOCK + b0,
		.ld = x->ld,
		.blocks = blocks,
		.first = !b0,
		.y = y + t0 * ldy + row,
		.ldy = ldy,
		.rows = r1 - row < KERN_TILE_ROWS ? r1 - row : KERN_TILE_ROWS,
	};
}

static void offsets(const struct kern_weight *w, const int16_t *q, uint32_t blocks, int32_t *off)
{
	int32_t by = -type_offset(w->type), lo, hi;
	bool two = type_scales(w->type) == 2;
	uint32_t b;

	for (b = 0; b < blocks; b++, q += KERN_BLOCK) {
		lo = by * sum_of(q);
		hi = by * sum_of(q + 16);
		off[2 * b] = two ? lo : lo + hi;
		off[2 * b + 1] = hi;
	}
}

static void few(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		float *y, size_t ldy)
{
	uint32_t blocks = w->cols / KERN_BLOCK, b0, m, t, row;
	int32_t off[FEW * 2 * DIRECT_BLOCKS];

	for (b0 = 0; b0 < blocks; b0 += m) {
		m = blocks - b0 < DIRECT_BLOCKS ? blocks - b0 : DIRECT_BLOCKS;
		for (t = 0; t < n && type_offset(w->type); t++)
			offsets(w, x->q + (size_t)t * x->ld + b0 * KERN_BLOCK, m, off + t * 2 * DIRECT_BLOCKS);
		for (row = r0; row < r1; row += KERN_TILE_ROWS) {
			struct part p = part_of(w, row, r1, b0, m, x, 0, y, ldy);

			direct_any(&p, n, off);
		}
	}
}

static void many(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		 float *y, size_t ldy)
{
	uint32_t blocks = w->cols / KERN_BLOCK, b0, m, t0, row;
	uint32_t tokens = TOKENS_BYTES / (w->cols * 2) / GROUP * GROUP, k;
	struct panel pl;

	if (!tokens)
		tokens = GROUP;
	for (t0 = 0; t0 < n; t0 += k) {
		k = n - t0 < tokens ? n - t0 : tokens;
		for (row = r0; row < r1; row += KERN_TILE_ROWS) {
			for (b0 = 0; b0 < blocks; b0 += m) {
				struct part p;

				m = blocks - b0 < PANEL_BLOCKS ? blocks - b0 : PANEL_BLOCKS;
				p = part_of(w, row, r1, b0, m, x, t0, y, ldy);
				panel_any(&pl, &p, k);
			}
		}
	}
}

static void product_any(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
			float *y, size_t ldy)
{
	if (n <= FEW)
		few(w, r0, r1, x, n, y, ldy);
	else
		many(w, r0, r1, x, n, y, ldy);
}
