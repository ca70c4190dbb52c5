// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The live view: ncurses shows what top_view.c draws. */
#include "map_cells.h"
#include "msg.h"
#include "top.h"

#ifndef KVSLAB_CURSES
int top_screen(struct top_source *t, struct top_view *v)
{
	(void)t, (void)v;
	msg("this command was built without ncurses; give --once or --json, or install libncurses-dev and build it again");
	return 1;
}
#else
#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_end;

static void on_signal(int sig)
{
	(void)sig;
	told_to_end = 1;
}

static attr_t looks[SCREEN_ATTRS];

static void choose_looks(void)
{
	static const short colours[SCREEN_ATTRS] = {
		[SCREEN_PRIVATE] = COLOR_BLUE, [SCREEN_SEALED] = COLOR_GREEN, [SCREEN_CACHED] = COLOR_YELLOW,
		[SCREEN_QUARANTINED] = COLOR_RED,
	};
	short i;

	looks[SCREEN_TITLE] = A_BOLD;
	looks[SCREEN_HEAD] = A_REVERSE;
	looks[SCREEN_CHOSEN] = A_BOLD | A_UNDERLINE;
	looks[SCREEN_DIM] = A_DIM;
	looks[SCREEN_WARN] = A_BOLD;
	if (!has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	for (i = SCREEN_PRIVATE; i <= SCREEN_QUARANTINED; i++)
		if (init_pair(i, colours[i], -1) != ERR)
			looks[i] = COLOR_PAIR(i);
	if (init_pair(SCREEN_WARN, COLOR_RED, -1) != ERR)
		looks[SCREEN_WARN] |= COLOR_PAIR(SCREEN_WARN);
}

static void put(const struct screen *s)
{
	const struct screen_cell *c;
	wchar_t text[2] = { 0 };
	cchar_t one;
	int x, y;
	attr_t a;

	for (y = 0; y < s->h; y++)
		for (x = 0; x < s->w; x++) {
			c = &s->cells[y * s->w + x];
			text[0] = (wchar_t)c->ch;
			a = looks[c->attr];
			setcchar(&one, text, a & ~A_COLOR, (short)PAIR_NUMBER(a), NULL);
			mvadd_wch(y, x, &one);
		}
	refresh();
}

struct live {
	struct top_source *t;
	struct top_view *v;
	struct snap now, before;
	double next; /* when to look again */
	uint64_t looks;
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int look(struct live *l)
{
	struct snap s;
	int rc = top_next(l->t, &s);

	l->next = seconds() + l->v->interval;
	if (rc < 0)
		return rc;
	if (!rc) {
		l->v->ended = true;
		return 0;
	}
	l->looks++;
	snap_free(&l->before);
	l->before = l->now;
	l->now = s;
	return 0;
}

static int draw(struct live *l)
{
	struct screen s;
	int err = screen_init(&s, COLS, LINES);

	if (err)
		return err;
	snap_sort(&l->now, l->v->sort, l->v->back);
	top_draw(&s, &l->now, l->before.pools ? &l->before : NULL, l->v);
	put(&s);
	screen_free(&s);
	return 0;
}

/* False: it was the key to end. */
static bool on_key(struct live *l, int key)
{
	struct top_view *v = l->v;

	if (v->help && key != ERR && key != KEY_RESIZE && key != 'q') {
		v->help = false;
		return true;
	}
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case 'h':
	case '?':
		v->help = true;
		break;
	case KEY_UP:
	case 'k':
		top_choose(v, &l->now, -1);
		break;
	case KEY_DOWN:
	case 'j':
		top_choose(v, &l->now, 1);
		break;
	case 's':
		v->sort = (v->sort + 1) % SNAP_SORTS;
		break;
	case 'r':
		v->back = !v->back;
		break;
	case 't':
		v->tier = v->tier == MAP_ANY_TIER ? KVSLAB_TIER_HOST :
			  v->tier == KVSLAB_TIER_HOST ? KVSLAB_TIER_DEVICE : MAP_ANY_TIER;
		break;
	case ' ':
	case 'p':
		v->paused = !v->paused;
		l->next = 0;
		break;
	case '+':
		v->interval = v->interval < 43200 ? v->interval * 2 : 86400;
		l->next = seconds() + v->interval;
		break;
	case '-':
		v->interval = v->interval > .2 ? v->interval / 2 : .1;
		l->next = seconds() + v->interval;
		break;
	}
	return true;
}

static int watch(struct live *l)
{
	uint64_t count = l->t->o->count;
	double wait;
	bool changed = true;
	int key, err = look(l);

	while (!err && !told_to_end) {
		if (changed)
			err = draw(l);
		wait = l->next - seconds();
		/* A signal may come between any two lines, so it is looked for often. */
		timeout(wait < 0 ? 0 : wait > .2 || l->v->paused || l->v->ended ? 200 : (int)(wait * 1000) + 1);
		errno = 0;
		key = getch();
		if (err || (key == ERR && errno == EIO)) /* the terminal is gone */
			break;
		changed = key != ERR;
		if (!on_key(l, key))
			break;
		if (l->v->paused || l->v->ended || seconds() < l->next)
			continue;
		if (count && l->looks >= count)
			break;
		err = look(l);
		changed = true;
	}
	return err;
}

static SCREEN *open_terminal(void)
{
	const char *name = getenv("TERM"), *cup;
	int rc;

	if (!name || !*name)
		name = "";
	else if (setupterm(name, STDOUT_FILENO, &rc) == OK) {
		cup = tigetstr("cup");
		if (cup && cup != (char *)-1)
			return newterm(name, stdout, stdin);
	}
	msg(*name ? "a terminal of type \"%s\" (TERM) is unknown here or cannot place its cursor; set TERM to what it is, "
		    "or give --once or --json"
		  : "TERM is not set%s; set it to the terminal's type, or give --once or --json", name);
	return NULL;
}

int top_screen(struct top_source *t, struct top_view *v)
{
	struct live l = { .t = t, .v = v };
	struct sigaction end = { .sa_handler = on_signal };
	SCREEN *screen;
	int err;

	setlocale(LC_CTYPE, "");
	v->ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	if (!isatty(STDIN_FILENO)) {
		msg("standard input is no terminal, so no key could end the live view; give --once or --json");
		return 1;
	}
	screen = open_terminal();
	if (!screen)
		return 1;
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	set_escdelay(25);
	choose_looks();
	err = watch(&l);
	endwin();
	delscreen(screen);
	snap_free(&l.now);
	snap_free(&l.before);
	if (err)
		msg("kvslab top: %s", strerror(-err));
	else if (t->file && t->record.why[0])
		msg("%s: %s", t->o->from, t->record.why);
	return err ? 1 : 0;
}
#endif
