// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>

#include "kvslab.h"

#define STR_(x) #x
#define STR(x) STR_(x)

const char *kvslab_version(void)
{
	return STR(KVSLAB_VERSION_MAJOR) "." STR(KVSLAB_VERSION_MINOR) "." STR(
		KVSLAB_VERSION_PATCH);
}

const char *kvslab_strerror(int err)
{
	if (err >= 0)
		return "success";
	switch (err) {
	case -EINVAL:
		return "an argument is out of range; see the call's description in kvslab.h";
	case -ENOMEM:
		return "the system gave no memory; free some, or open a smaller arena";
	case -ENOSPC:
		return "no page is free in the arena and none can be evicted; free pages, or open "
		       "a larger arena";
	case -EDQUOT:
		return "the pool is at its limit; free pages, or open the pool with a larger max";
	case -ESTALE:
		return "the handle is of a page that was freed since; the call changed nothing";
	case -EBADF:
		return "the handle is not one that this client holds; the call changed nothing";
	case -ENOENT:
		return "not there: the parent of a page, which must be sealed or looked up first, or "
		       "a pool's node (is the module loaded?)";
	case -EACCES:
	case -EPERM:
		return "permission denied; the pool's owner, group and mode say who may open it";
	case -ENOTTY:
		return "that is no pool; pools are the nodes in /dev/kvslab but control";
	case -EPROTO:
		return "module and library are of different versions, or an executor drew a token "
		       "that there is not";
	case -EBUSY:
		return "in use: a page is pinned by a device or an I/O, or an object is running; "
		       "try again when it is done";
	case -EAGAIN:
		return "nothing can be done right now; try again";
	case -E2BIG:
		return "more than fits: a page is larger than an extent, or a batch than its "
		       "executor takes";
	case -EMSGSIZE:
		return "the prompt is longer than the model's context; shorten it";
	case -EFBIG:
		return "the request could never fit into the pool, even alone; open a larger pool "
		       "or shorten it";
	case -EDOM:
		return "a value of the model is not finite; check the model file";
	case -EOPNOTSUPP:
		return "this build of the library lacks that; see kvslab.h for what it has";
	case -EUCLEAN:
		return "a rule of the pool is broken; this is a bug in the library, or memory was "
		       "overwritten";
	case -ENODEV:
		return "the pool is gone; open it again";
	case -EOVERFLOW:
		return "a counter of references is full; drop some first";
	}
	return "an error of the system; see errno(3)";
}
