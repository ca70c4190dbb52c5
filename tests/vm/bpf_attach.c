// SPDX-License-Identifier: GPL-2.0
/*
 * usage: bpf_attach FILE.bpf.o FOLDER [VERSION]
 * Loads the programs of a file, attaches them, and pins their links and maps in FOLDER: for a bpftool
 * that can load but not attach raw tracepoints (7.1, of Debian 12). Prints how many instructions the
 * verifier went through. VERSION: of the maps, for a tool that knows another one.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;
	struct bpf_prog_info info;
	struct bpf_link *link;
	unsigned int size;
	char path[512];

	if (argc < 3)
		return 2;
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		return 1;
	if (argc > 3)
		bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "version"),
					 (unsigned int)atoi(argv[3]));
	if (bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object)
	{
		info = (struct bpf_prog_info){ 0 };
		size = sizeof(info);
		link = bpf_program__attach(program);
		snprintf(path, sizeof(path), "%s/%s", argv[2], bpf_program__name(program));
		if (!link || bpf_link__pin(link, path)) {
			fprintf(stderr, "%s: not attached\n", bpf_program__name(program));
			return 1;
		}
		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
			printf("%s %u\n", bpf_program__name(program), info.verified_insns);
	}
	return bpf_object__pin_maps(object, argv[2]) ? 1 : 0;
}
