// SPDX-License-Identifier: GPL-2.0
/*
 * usage: bpf_attach FILE.bpf.o FOLDER
 * Loads the programs of a file, attaches them, and pins their links and maps in FOLDER. For a
 * bpftool that can load but not attach raw tracepoints (7.1, of Debian 12).
 */
#include <bpf/libbpf.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;
	struct bpf_link *link;
	char path[512];

	if (argc != 3)
		return 2;
	object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object)
	{
		link = bpf_program__attach(program);
		snprintf(path, sizeof(path), "%s/%s", argv[2], bpf_program__name(program));
		if (!link || bpf_link__pin(link, path)) {
			fprintf(stderr, "%s: not attached\n", bpf_program__name(program));
			return 1;
		}
	}
	return bpf_object__pin_maps(object, argv[2]) ? 1 : 0;
}
