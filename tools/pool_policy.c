// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab pool policy: what gives sealed pages their priority classes (docs/policy.md). */
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "args.h"
#include "msg.h"

#define MODULE "/sys/module/kvslab"

int pool_policy(bool json)
{
	FILE *f = fopen(MODULE "/parameters/policy", "r");
	struct utsname kernel;
	char text[200] = "";
	bool none;

	if (!f) {
		if (access(MODULE, F_OK))
			return pool_told(-ENOTCONN, "kvslab pool policy");
		msg("the module that is loaded is older than this command and knows no policies; load the one of this version");
		return 1;
	}
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
	none = !strncmp(text, "none", 4);
	if (json)
		return out_json(none ? json_pack("{s:n}", "policy") : json_pack("{s:s}", "policy", text)) || none;
	if (!none) {
		out_text("%s\n", text);
		return 0;
	}
	uname(&kernel);
	if (strstr(text, "BTF"))
		msg("there are no policies here: the module lacks BTF; build it where pahole and the kernel's vmlinux are");
	else
		msg("this kernel, %s, is too old for policies; BPF programs give pages their class on 6.12 and newer. Here "
		    "SEAL's priority counts, and within one the least recently used page goes first", kernel.release);
	return 1;
}
