// SPDX-License-Identifier: GPL-2.0
/*
 * vm-walk, for the guest: the module's debug walk; says "ok" or the broken rule. Then destroys the
 * pools that a test has left behind.
 */
#include <dirent.h>

#include "ks.h"

int main(void)
{
	DIR *d = opendir("/dev/kvslab");
	char text[1000] = "";
	struct dirent *e;
	int r;

	if (!d)
		return 0; /* no module, nothing to walk over */
	r = ks_read_file("/sys/kernel/debug/kvslab/check", text, sizeof(text));
	if (r < 0)
		snprintf(text, sizeof(text), "the debug walk cannot be read: %s\n", strerror(-r));
	printf("%s", text);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, "control"))
			ks_destroy(e->d_name, KVSLAB_DESTROY_FORCE);
	return strncmp(text, "ok", 2) ? 1 : 0;
}
