// SPDX-License-Identifier: GPL-2.0
/*
 * usage: bpf_as UID CAPABILITY,... COMMAND...
 * Runs a command as a user with these capabilities (by number; "none") and no others.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	unsigned long long caps = 0;
	unsigned int uid, cap;
	char *word;

	if (argc < 4)
		return 2;
	uid = (unsigned int)atoi(argv[1]);
	for (word = strtok(argv[2], ","); word && strcmp(word, "none"); word = strtok(NULL, ","))
		caps |= 1ull << atoi(word);
	if (prctl(PR_SET_KEEPCAPS, 1) || setgid(uid) || setuid(uid))
		return 3;
	data[0].permitted = data[0].inheritable = data[0].effective = (unsigned int)caps;
	data[1].permitted = data[1].inheritable = data[1].effective = (unsigned int)(caps >> 32);
	if (syscall(SYS_capset, &head, data))
		return 4;
	for (cap = 0; cap < 64; cap++)
		if (caps >> cap & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0))
			return 5;
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 6;
}
