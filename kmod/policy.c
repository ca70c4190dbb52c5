// SPDX-License-Identifier: GPL-2.0
/*
 * kvslab_policy as struct_ops of BPF. Without one nothing is called: a pointer is looked at.
 *
 * Who calls a policy's function is in an RCU read section, and the kernel frees programs only after a
 * grace period; a map of programs that is loaded keeps the module.
 */
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "kmod.h"
#include "policy.h"

/* What is said of a kernel that cannot have one. */
#define NO_POLICIES "none: this kernel lets no module have policies"

#ifdef KVSLAB_POLICIES

static bool registered; /* the type */
static DEFINE_MUTEX(policy_mutex);
struct kvslab_policy __rcu *kvslab_policy; /* policy_mutex */

u32 kvslab_policy_sealed(u32 pool, u32 cache, u64 tag, u32 depth, u32 class)
{
	struct kvslab_policy *p;

	rcu_read_lock();
	p = rcu_dereference(kvslab_policy);
	if (p && p->sealed)
		class = p->sealed(pool, cache, tag, depth, class);
	rcu_read_unlock();
	return class;
}

u32 kvslab_policy_found(u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class)
{
	struct kvslab_policy *p;

	rcu_read_lock();
	p = rcu_dereference(kvslab_policy);
	if (p && p->found)
		class = p->found(pool, cache, tag, depth, hits, class);
	rcu_read_unlock();
	return class;
}

static int policy_reg(void *kdata, struct bpf_link *link)
{
	struct kvslab_policy *p = kdata;
	int r = 0;

	mutex_lock(&policy_mutex);
	if (rcu_access_pointer(kvslab_policy)) {
		r = -EBUSY;
	} else {
		rcu_assign_pointer(kvslab_policy, p);
		pr_info("kvslab: policy %s gives pages their classes\n", p->name);
	}
	mutex_unlock(&policy_mutex);
	return r;
}

static void policy_unreg(void *kdata, struct bpf_link *link)
{
	struct kvslab_policy *p = kdata;

	mutex_lock(&policy_mutex);
	if (rcu_access_pointer(kvslab_policy) == p) {
		RCU_INIT_POINTER(kvslab_policy, NULL);
		pr_info("kvslab: policy %s is gone\n", p->name);
	}
	mutex_unlock(&policy_mutex);
	synchronize_rcu();
}

static int policy_update(void *kdata, void *old_kdata, struct bpf_link *link)
{
	int r = -EINVAL;

	mutex_lock(&policy_mutex);
	if (rcu_access_pointer(kvslab_policy) == old_kdata) {
		rcu_assign_pointer(kvslab_policy, (struct kvslab_policy *)kdata);
		r = 0;
	}
	mutex_unlock(&policy_mutex);
	if (!r)
		synchronize_rcu();
	return r;
}

static int policy_validate(void *kdata)
{
	struct kvslab_policy *p = kdata;

	return p->sealed || p->found ? 0 : -EINVAL;
}

static int policy_init(struct btf *btf)
{
	return 0;
}

static int policy_check_member(const struct btf_type *t, const struct btf_member *member,
			       const struct bpf_prog *prog)
{
	return prog->sleepable ? -EINVAL : 0;
}

/* 1: taken from @udata; 0: the kernel fills it in, or it must be zero. */
static int policy_init_member(const struct btf_type *t, const struct btf_member *member,
			      void *kdata, const void *udata)
{
	const struct kvslab_policy *from = udata;
	struct kvslab_policy *p = kdata;
	u32 i;

	if (__btf_member_bit_offset(t, member) != offsetof(struct kvslab_policy, name) * 8)
		return 0;
	/* It goes into the log. */
	for (i = 0; i < sizeof(p->name) && from->name[i] > ' ' && from->name[i] <= '~'; i++)
		p->name[i] = from->name[i];
	if (!i || i == sizeof(p->name) || from->name[i])
		return -EINVAL;
	p->name[i] = '\0';
	return 1;
}

static bool policy_access(int off, int size, enum bpf_access_type type, const struct bpf_prog *prog,
			  struct bpf_insn_access_aux *info)
{
	return bpf_tracing_btf_ctx_access(off, size, type, prog, info);
}

static const struct bpf_func_proto *policy_helper(enum bpf_func_id id, const struct bpf_prog *prog)
{
	return bpf_base_func_proto(id, prog);
}

static const struct bpf_verifier_ops policy_verifier_ops = {
	.get_func_proto = policy_helper,
	.is_valid_access = policy_access,
};

/* The functions' types, for kernels that check them at each call. */
static u32 stub_sealed(u32 pool, u32 cache, u64 tag, u32 depth, u32 class)
{
	return class;
}

static u32 stub_found(u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class)
{
	return class;
}

static struct kvslab_policy policy_stubs = {
	.sealed = stub_sealed,
	.found = stub_found,
};

static struct bpf_struct_ops policy_ops = {
	.verifier_ops = &policy_verifier_ops,
	.init = policy_init,
	.check_member = policy_check_member,
	.init_member = policy_init_member,
	.reg = policy_reg,
	.unreg = policy_unreg,
	.update = policy_update,
	.validate = policy_validate,
	.cfi_stubs = &policy_stubs,
	.owner = THIS_MODULE,
	.name = "kvslab_policy",
};

/* A kernel or module without BTF has everything but policies. */
void kvslab_policy_init(void)
{
	int r = register_bpf_struct_ops(&policy_ops, kvslab_policy);

	registered = !r;
	if (r)
		pr_info("kvslab: no policies: error %d; is the module's BTF missing?\n", r);
}

static int policy_get(char *text, const struct kernel_param *param)
{
	struct kvslab_policy *p;
	int n;

	if (!registered)
		return sysfs_emit(text, NO_POLICIES ", or the module lacks BTF\n");
	mutex_lock(&policy_mutex);
	p = rcu_dereference_protected(kvslab_policy, lockdep_is_held(&policy_mutex));
	n = sysfs_emit(text, "%s\n", p ? p->name : "lru");
	mutex_unlock(&policy_mutex);
	return n;
}

#else

void kvslab_policy_init(void)
{
}

static int policy_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, NO_POLICIES "\n");
}

#endif

static const struct kernel_param_ops policy_param = {
	.get = policy_get,
};

module_param_cb(policy, &policy_param, NULL, 0444);
MODULE_PARM_DESC(policy, "(reading only) what gives pages their classes");
