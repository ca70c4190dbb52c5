// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#ifdef KVSLAB_TRACE
#include "trace_place.h"

#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 32

struct symbol {
	uint64_t at, size;
	char *name;
};

/* An ELF file: what it loads from where, and its functions by address. */
struct file {
	dev_t dev;
	ino_t ino;
	struct {
		uint64_t offset, size, at;
	} loads[16];
	size_t n_loads, n;
	struct symbol *symbols;
};

struct trace_places {
	struct file files[FILES];
	size_t n, next; /* next: to be forgotten when all are used */
};

struct trace_places *trace_places_new(void)
{
	elf_version(EV_CURRENT);
	return calloc(1, sizeof(struct trace_places));
}

static void forget(struct file *f)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		free(f->symbols[i].name);
	free(f->symbols);
	memset(f, 0, sizeof(*f));
}

void trace_places_free(struct trace_places *p)
{
	size_t i;

	for (i = 0; p && i < p->n; i++)
		forget(&p->files[i]);
	free(p);
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void read_symbols(struct file *f, Elf *elf, Elf_Scn *section, const GElf_Shdr *head)
{
	size_t n = head->sh_entsize ? head->sh_size / head->sh_entsize : 0, i;
	Elf_Data *data = elf_getdata(section, NULL);
	struct symbol *more;
	const char *name;
	GElf_Sym s;

	if (!data || !n)
		return;
	more = reallocarray(f->symbols, f->n + n, sizeof(*more));
	if (!more)
		return;
	f->symbols = more;
	for (i = 0; i < n; i++) {
		if (!gelf_getsym(data, (int)i, &s) || GELF_ST_TYPE(s.st_info) != STT_FUNC || !s.st_value)
			continue;
		name = elf_strptr(elf, head->sh_link, s.st_name);
		if (!name || !*name)
			continue;
		f->symbols[f->n] = (struct symbol){ s.st_value, s.st_size, strdup(name) };
		f->n += f->symbols[f->n].name != NULL;
	}
}

static void read_elf(struct file *f, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr head;
	GElf_Phdr load;
	size_t n = 0, i;

	if (elf_getphdrnum(elf, &n))
		return;
	for (i = 0; i < n && f->n_loads < 16; i++) {
		if (!gelf_getphdr(elf, (int)i, &load) || load.p_type != PT_LOAD)
			continue;
		f->loads[f->n_loads].offset = load.p_offset;
		f->loads[f->n_loads].size = load.p_filesz;
		f->loads[f->n_loads++].at = load.p_vaddr;
	}
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &head) && (head.sh_type == SHT_SYMTAB || head.sh_type == SHT_DYNSYM))
			read_symbols(f, elf, section, &head);
	if (f->n)
		qsort(f->symbols, f->n, sizeof(*f->symbols), by_address);
}

/* NULL: it cannot be read. */
static const struct file *file_of(struct trace_places *p, uint32_t pid, const char *path)
{
	struct file *f = NULL;
	char name[400];
	struct stat st;
	size_t i;
	Elf *elf;
	int fd;

	/* As the process sees it, which may be in a container. */
	snprintf(name, sizeof(name), "/proc/%u/root%s", pid, path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return NULL;
	}
	for (i = 0; i < p->n && !f; i++)
		if (p->files[i].dev == st.st_dev && p->files[i].ino == st.st_ino)
			f = &p->files[i];
	if (!f) {
		f = &p->files[p->n < FILES ? p->n++ : p->next++ % FILES];
		forget(f);
		f->dev = st.st_dev;
		f->ino = st.st_ino;
		elf = elf_begin(fd, ELF_C_READ, NULL);
		if (elf) {
			read_elf(f, elf);
			elf_end(elf);
		}
	}
	close(fd);
	return f;
}

/* The function at @offset of the file, or NULL. */
static const struct symbol *function_at(const struct file *f, uint64_t offset, uint64_t *into)
{
	size_t low = 0, high = f->n, middle, i;
	uint64_t at = 0;

	for (i = 0; i < f->n_loads; i++)
		if (offset - f->loads[i].offset < f->loads[i].size)
			break;
	if (i == f->n_loads)
		return NULL;
	at = offset - f->loads[i].offset + f->loads[i].at;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (f->symbols[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	*into = at - f->symbols[low - 1].at;
	/* Assembly has no sizes: up to the next one. */
	if (f->symbols[low - 1].size && *into >= f->symbols[low - 1].size)
		return NULL;
	return &f->symbols[low - 1];
}

static void place_in(struct trace_places *p, uint32_t pid, const char *path, uint64_t address, uint64_t offset,
		     char *text, size_t n)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const struct file *f = file_of(p, pid, path);
	uint64_t into = 0;
	const struct symbol *s = f ? function_at(f, offset, &into) : NULL;

	if (s)
		snprintf(text, n, "%#" PRIx64 " %s+%#" PRIx64 " (%s)", address, s->name, into, base);
	else
		snprintf(text, n, "%#" PRIx64 " %s+%#" PRIx64, address, base, offset);
}

void trace_place(struct trace_places *p, uint32_t pid, uint64_t address, char *text, size_t n)
{
	unsigned long long from, to, offset;
	char path[64], line[512], file[256];
	FILE *f;

	snprintf(text, n, "%#" PRIx64, address);
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %255[^\n]", &from, &to, &offset, file) != 4)
			continue;
		if (address < from || address >= to)
			continue;
		if (p)
			place_in(p, pid, file, address, address - from + offset, text, n);
		break;
	}
	if (f)
		fclose(f);
}
#endif
