/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The core's hooks in the replay of traces: the policy under test gives pages their classes. */
#ifndef REPLAY_HOOKS_H
#define REPLAY_HOOKS_H

extern u32 (*replay_class)(u32 depth, u32 hits, u32 class); /* NULL: as the SEAL said */

#define kvc_hook_class_sealed(pool, cache, tag, depth, class) \
	(replay_class ? replay_class(depth, 0, class) : (u32)(class))
#define kvc_hook_class_hit(pool, cache, tag, depth, hits, class) \
	(replay_class ? replay_class(depth, hits, class) : (u32)(class))

#endif
