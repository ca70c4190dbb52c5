// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Byte-level BPE writes bytes as printable characters: those of Latin-1 that are printable stand
 * for themselves, the other 68 follow from U+0100 on, in order.
 */
#include "tok_impl.h"

static bool itself(uint32_t b)
{
	return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

uint32_t tok_byte_char(uint8_t b)
{
	if (itself(b))
		return b;
	if (b <= 0x20)
		return 0x100u + b;
	return b == 0xad ? 0x143 : 0x121u + b - 0x7f;
}

int tok_char_byte(uint32_t cp)
{
	if (cp < 0x100)
		return itself(cp) ? (int)cp : -1;
	if (cp <= 0x120)
		return (int)cp - 0x100;
	if (cp <= 0x142)
		return (int)cp - 0x121 + 0x7f;
	return cp == 0x143 ? 0xad : -1;
}
