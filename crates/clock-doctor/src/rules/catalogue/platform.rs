//! Labels: hypervisors, clouds and kernels.

use super::{Bearing, Fix, Label, LabelRow, Never, Order, PLAIN, Says, Severity};

pub(super) static LABELS: &[LabelRow] = &[
    LabelRow {
        label: Label::TscTrustedByHypervisor,
        severity: Severity::Ok,
        title: "the hypervisor vouches for the TSC",
        explanation: "The kernel takes the TSC's rate from the hypervisor and sets the flag tsc_reliable: \
            neither comparison nor watchdog will refuse it. VMware does so, Hyper-V with an \
            invariant TSC, and TDX.",
        fix: "Nothing to do.",
        caveat: "After a move to a host with another rate the hypervisor has to scale the counter, \
            and does.",
        references: &["arch/x86/kernel/cpu/vmware.c", "arch/x86/kernel/tsc.c (6.12)"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::GuestLacksInvtsc,
        severity: Severity::Slow,
        title: "the guest is not given an invariant TSC",
        explanation: "Hypervisors hide the invariant TSC from guests as a rule, since a guest that uses it \
            cannot move freely to a host with another rate. Without it and without a paravirtual \
            clock the kernel has to watch or refuse the TSC, and the fallback is a device whose \
            every read leaves the guest (2 to 30 us).",
        fix: "On the host: `-cpu host,migratable=no,+invtsc`, or in libvirt `<feature \
            policy='require' name='invtsc'/>`.",
        caveat: "No live migration between hosts with different TSC rates without scaling.",
        references: &[
            "QEMU and libvirt documentation (CPU models, domain XML)",
            "arch/x86/kernel/kvmclock.c (4.19, 5.10, 6.12)",
        ],
        bearing: Bearing { weight: 70, ..PLAIN },
    },
    LabelRow {
        label: Label::KvmClockPresent,
        severity: Severity::Ok,
        title: "the kernel has KVM's own clock",
        explanation: "kvm-clock computes the time from the TSC with scale and offset that the host keeps \
            up to date. It is a good clock: the vDSO reads it (in 4.4, not in 3.6) if the host \
            says that its TSC is stable. With an invariant TSC newer guests (5.10, not 4.19) \
            prefer tsc to it.",
        fix: "Nothing to do.",
        caveat: "",
        references: &["arch/x86/kernel/kvmclock.c (4.19, 5.10, 6.12)"],
        bearing: Bearing { says: &[Says::EffectOnly], ..PLAIN },
    },
    LabelRow {
        label: Label::KvmClockNoVdsoSuspected,
        severity: Severity::Slow,
        title: "kvm-clock may need a system call for every read",
        explanation: "The vDSO reads kvm-clock only if the host sets PVCLOCK_TSC_STABLE_BIT, which it does \
            not when its own TSC is unstable. That the guest's TSC was refused hints at it; no \
            file shows it, only a measurement.",
        fix: "Measure in the guest (`clockscope doctor` does). If it is so: mend the host's TSC, \
            give the guest an invariant TSC.",
        caveat: "",
        references: &[
            "arch/x86/kernel/kvmclock.c (4.19, 5.10, 6.12)",
            "arch/x86/entry/vdso (4.4, 6.12)",
        ],
        bearing: Bearing {
            follows: &[Label::KvmHostTscBackwards, Label::TscWarp, Label::TscAbsent],
            clause: "the vDSO may not be able to read kvm-clock",
            says: &[Says::VdsoIsOpen],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::NestedOrOverloaded,
        severity: Severity::Slow,
        title: "the virtual CPUs were not run when they should have been",
        explanation: "The numbers in the log fit a guest that was off its CPU for longer than the watchdog \
            expects: overcommitted hosts and nested virtualisation do that. Clock reads through \
            devices suffer most, since each leaves the guest.",
        fix: "On the host: fewer virtual CPUs than real ones, or pinned ones. In the guest: \
            kvm-clock or an invariant TSC, tsc=nowatchdog.",
        caveat: "",
        references: &["kernel/time/clocksource.c (6.1, 6.12)", "Mellanox/mkt #74"],
        bearing: Bearing { clause: "virtual CPUs that were not run looked like skew", ..PLAIN },
    },
    LabelRow {
        label: Label::AfterResume,
        severity: Severity::Wrong,
        title: "it happened after a suspend, a resume or a restore",
        explanation: "A suspend, a hibernation or a restored guest sets counters: the TSC may begin anew, \
            and firmware may restore it wrongly on some CPUs. The kernel corrects its own time; \
            what it finds afterwards can cost the TSC.",
        fix: "In a guest: suspend the guests with their host, keep the paravirtual clock. On \
            hardware: update the firmware.",
        caveat: "No clocksource=tsc and no tsc=reliable.",
        references: &["QubesOS/qubes-issues #7404, #8061", "docker/for-mac #2747, #3455, #6430"],
        bearing: Bearing {
            also_forbids: &[Fix::TscReliable, Fix::TscNowatchdog, Fix::ClocksourceTsc],
            never: Some(Never {
                place: 7,
                order: Order::Do(
                    "boot with clocksource=tsc or tsc=reliable: the next suspend would change the \
         counters again, with nothing left to notice.",
                ),
            }),
            clause: "a suspend or restore changed the counters",
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::MigrationRisk,
        severity: Severity::Wrong,
        title: "a live migration can change the clock's rate",
        explanation: "tsc=reliable is set and there is no paravirtual clock. After a live migration to a \
            host with another TSC rate the guest goes on with the old rate, and no watchdog \
            notices.",
        fix: "Give the guest kvm-clock, or hosts that scale the TSC; until then no tsc=reliable.",
        caveat: "No risk where the guest never migrates.",
        references: &["erigones/esdc-factory #114"],
        bearing: Bearing {
            also_forbids: &[Fix::TscReliable, Fix::ClocksourceTsc],
            never: Some(Never {
                place: 9,
                order: Order::Do(
                    "keep tsc=reliable on a guest that migrates live: on a host with another TSC rate \
         its clock runs wrong, and nothing notices.",
                ),
            }),
            clause: "tsc=reliable would hide a changed rate after a migration",
            says: &[Says::TscIsWrong],
            ..PLAIN
        },
    },
    LabelRow {
        label: Label::VmwareGuestSupportMissing,
        severity: Severity::Slow,
        title: "the kernel does not know that VMware vouches for the TSC",
        explanation: "The machine is VMware's, but the kernel printed nothing of the rate that the \
            hypervisor states. Without CONFIG_HYPERVISOR_GUEST it treats the TSC as any, and the \
            watchdog refused it.",
        fix: "A kernel with CONFIG_HYPERVISOR_GUEST=y, as every distribution's has; or \
            tsc=reliable.",
        caveat: "",
        references: &["fbelavenuto/arpl #244", "arch/x86/kernel/cpu/vmware.c"],
        bearing: Bearing { weight: 70, ..PLAIN },
    },
    LabelRow {
        label: Label::OldKernel,
        severity: Severity::Note,
        title: "this kernel's rules differ from today's",
        explanation: "Before 4.0 several things were otherwise. The comparison of the CPUs ignored \
            tsc=reliable (until about 3.3), the vDSO read no kvm-clock (3.6), no Hyper-V page \
            (until 4.12) and no Xen clock, and it did read hpet (until 4.6), which saves the \
            system call but not the device.",
        fix: "A newer kernel.",
        caveat: "Vendors add later parts to old versions: measure.",
        references: &[
            "arch/x86/kernel/tsc_sync.c (2.6.36, 3.6)",
            "arch/x86/vdso (2.6.36, 3.6, 4.4)",
        ],
        bearing: Bearing { weight: 10, clause: "this kernel is old", ..PLAIN },
    },
    LabelRow {
        label: Label::VdsoSupportDependsOnKernel,
        severity: Severity::Slow,
        title: "whether the vDSO reads this clocksource depends on the kernel",
        explanation: "The vDSO reads Hyper-V's page from 4.12 on (4.9 does not, 4.14 does), xen's clock \
            from about 4.16 (4.14 does not, 4.19 does) and kvm-clock from about 3.8 (3.6 does \
            not, 4.4 does), the last two only with the hypervisor's stable bit. Otherwise each \
            read is a system call. Vendors add later parts to old versions.",
        fix: "Measure on the machine (`clockscope doctor`), use a newer kernel, or tsc where it is \
            available.",
        caveat: "",
        references: &[
            "arch/x86/entry/vdso (4.4 to 6.12)",
            "drivers/clocksource/hyperv_timer.c (5.10)",
            "arch/x86/xen/time.c (4.14, 4.19)",
        ],
        bearing: Bearing { says: &[Says::VdsoIsOpen], ..PLAIN },
    },
    LabelRow {
        label: Label::SnapshotRestoreRisk,
        severity: Severity::Note,
        title: "restoring a snapshot leaves the wall clock behind",
        explanation: "A microVM that is restored from a snapshot goes on with the wall clock of the moment \
            when it was taken, unless the restore sets kvm-clock forward (clock_realtime) or a \
            daemon in the guest steps the clock. That is why kvm-clock instead of tsc can be \
            meant.",
        fix: "Restore with clock_realtime and kvm-clock, or step the clock in the guest after each \
            restore.",
        caveat: "",
        references: &["firecracker-microvm/firecracker #5809", "e2b-dev #638"],
        bearing: PLAIN,
    },
    LabelRow {
        label: Label::EmulatedKernel,
        severity: Severity::Note,
        title: "the kernel that answers is not Linux itself",
        explanation: "gVisor, User Mode Linux and their like answer in a kernel's name and bring their own \
            vDSO. Their /sys and /proc say nothing of the clock that is really read.",
        fix: "Measure here (`clockscope doctor`, `clockscope bench`); look for causes on the host.",
        caveat: "",
        references: &["google/gvisor #8118"],
        bearing: Bearing { says: &[Says::NoVdso], ..PLAIN },
    },
];
