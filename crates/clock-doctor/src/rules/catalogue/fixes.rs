//! What can be advised.

use super::{Fix, FixRow};

/// All fixes.
pub static FIXES: &[FixRow] = &[
    FixRow {
        fix: Fix::SwitchToTsc,
        title: "switch to tsc now",
        what: "Makes tsc the current clocksource at once, until the next boot. The write reports \
            success even when the kernel refuses, so the file has to be read again.",
        since: "",
        risk: "Not on hosts or guests that suspend, migrate or are restored from snapshots while \
            they keep another source for that reason.",
        reboots: false,
        references: &["kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)"],
    },
    FixRow {
        fix: Fix::ClocksourceTsc,
        title: "boot with clocksource=tsc",
        what: "Puts tsc before all other sources at boot. It does not bring back a TSC that the \
            kernel refuses.",
        since: "",
        risk: "Ignored without a word if tsc does not register. Not on machines that suspend guests \
            or are restored from snapshots.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "kernel/time/clocksource.c (boot_override_clocksource; 6.12)",
        ],
    },
    FixRow {
        fix: Fix::SwitchToHpet,
        title: "switch to hpet now",
        what: "hpet takes 1.2 to 1.9 us a read, does not wrap every 4.69 s and resolves better than \
            acpi_pm. Until the next boot.",
        since: "",
        risk: "It is still a system call and a device read.",
        reboots: false,
        references: &["kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)"],
    },
    FixRow {
        fix: Fix::SwitchToKvmClock,
        title: "switch to kvm-clock now",
        what: "kvm-clock is read by the vDSO where the host's TSC is stable, and stays right \
            through pauses and migrations. Until the next boot.",
        since: "in the vDSO: 4.4, not 3.6",
        risk: "",
        reboots: false,
        references: &[
            "kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)",
            "arch/x86/kernel/kvmclock.c (4.4, 5.10)",
        ],
    },
    FixRow {
        fix: Fix::SwitchSource,
        title: "switch to the fastest available clocksource now",
        what: "Makes another available source current at once, until the next boot.",
        since: "",
        risk: "See first whether a parameter asks for the present one, and why.",
        reboots: false,
        references: &["kernel/time/clocksource.c (current_clocksource_store; 2.6.36 to 6.12)"],
    },
    FixRow {
        fix: Fix::TscNowatchdog,
        title: "boot with tsc=nowatchdog",
        what: "Turns the watchdog off for the TSC and leaves the comparison of the CPUs at boot: \
            milder than tsc=reliable.",
        since: "5.10 and RHEL 8's 4.18, not 4.19; from about 5.2",
        risk: "A TSC that goes wrong later is not noticed. Measure again after updates of firmware \
            or kernel.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "arch/x86/kernel/tsc.c (5.10)",
        ],
    },
    FixRow {
        fix: Fix::TscReliable,
        title: "boot with tsc=reliable, once measured",
        what: "Turns off the watchdog and the comparison of the CPUs at boot.",
        since: "the comparison from about 3.3 (3.6 yes, 2.6.36 no); tsc-early heeds it in 5.10, not \
            in RHEL 8's first kernels",
        risk: "Only after `clockscope wrongness` measured the offset between all CPUs as smaller \
            than a read, and the drift as under 100 ppm. A TSC that goes wrong later is not \
            noticed.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "arch/x86/kernel/tsc_sync.c (2.6.36, 3.6, 6.12)",
        ],
    },
    FixRow {
        fix: Fix::TscRecalibrate,
        title: "boot with tsc=recalibrate, to have the rate checked",
        what: "Makes the kernel hold a rate from CPUID or an MSR against a timer, and print both if they \
            differ by more than 500 ppm. It goes on with the first all the same.",
        since: "6.12, not 6.1; from about 6.3",
        risk: "Needs an HPET or ACPI timer.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "arch/x86/kernel/tsc.c (6.12)",
        ],
    },
    FixRow {
        fix: Fix::TscEarlyKhz,
        title: "boot with the right tsc_early_khz",
        what: "States the TSC's rate and overrides a wrong early one.",
        since: "6.12's documentation",
        risk: "A wrong value makes the time wrong. Take it away after a firmware update.",
        reboots: true,
        references: &["Documentation/admin-guide/kernel-parameters.txt (6.12)"],
    },
    FixRow {
        fix: Fix::RemoveParameter,
        title: "take a parameter off the command line",
        what: "Somebody's old work-around decides which clocksource is used; without it the kernel \
            chooses by itself.",
        since: "",
        risk: "If it was there for a reason, the kernel's log of the next boot says so: read it.",
        reboots: true,
        references: &["Documentation/admin-guide/kernel-parameters.txt (6.12)"],
    },
    FixRow {
        fix: Fix::NewerKernel,
        title: "use a newer kernel",
        what: "Later kernels read more clocks in the vDSO and have fewer false alarms of the \
            watchdog.",
        since: "",
        risk: "",
        reboots: true,
        references: &["kernel/time/clocksource.c (2.6.36 to 7.1)"],
    },
    FixRow {
        fix: Fix::Reboot,
        title: "reboot",
        what: "What is marked unstable stays so until the next boot; a reboot gives the TSC another \
            chance.",
        since: "",
        risk: "It comes back if its cause does.",
        reboots: true,
        references: &["kernel/time/clocksource.c (4.4 to 6.12)"],
    },
    FixRow {
        fix: Fix::ColdBoot,
        title: "shut down, set the number of CPUs, start",
        what: "CPUs that are there from the start count together; added ones begin at another \
            value.",
        since: "",
        risk: "",
        reboots: true,
        references: &["arch/x86/kernel/tsc_sync.c (6.12)"],
    },
    FixRow {
        fix: Fix::BiosUpdate,
        title: "update the firmware",
        what: "Firmware sets the counters at boot and on resume, and states the TSC's rate; only it \
            can set them right.",
        since: "",
        risk: "Measure again after it.",
        reboots: true,
        references: &["bugzilla.kernel.org 202525, 216146"],
    },
    FixRow {
        fix: Fix::PreBootSynchroniser,
        title: "set the counters right before the kernel starts",
        what: "A small program that runs before the boot loader writes the same value into all \
            cores' counters.",
        since: "",
        risk: "From outside the distribution, and to be repeated after each suspend if the firmware \
            breaks them again.",
        reboots: true,
        references: &["Zanasin/tscsync"],
    },
    FixRow {
        fix: Fix::EnableHpet,
        title: "turn the HPET on in the firmware",
        what: "Gives the watchdog a reference of 32 bits or more and the kernel a better fallback \
            than acpi_pm.",
        since: "",
        risk: "Not where the HPET stops in deep sleep (PC10).",
        reboots: true,
        references: &["arch/x86/kernel/hpet.c (6.12)"],
    },
    FixRow {
        fix: Fix::HpetDisable,
        title: "boot with hpet=disable",
        what: "Keeps an HPET that stops in deep sleep from misjudging the TSC, on kernels that do \
            not set it aside by themselves.",
        since: "",
        risk: "The watchdog then judges by acpi_pm.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "arch/x86/kernel/hpet.c (5.10)",
        ],
    },
    FixRow {
        fix: Fix::MaxCstate,
        title: "keep the CPUs out of deep sleep",
        what: "A counter that stops in deep sleep does not stop if the CPUs do not go there.",
        since: "",
        risk: "Costs power and heat, on a laptop much of the battery.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "drivers/acpi/processor_idle.c",
        ],
    },
    FixRow {
        fix: Fix::ParavirtproviderKvm,
        title: "give the guest KVM's clock",
        what: "VirtualBox then offers kvm-clock, which does not depend on the comparison of the \
            guest's CPUs.",
        since: "VirtualBox 5.0; guests from Linux 2.6.25",
        risk: "With some versions of VirtualBox kvm-clock is irregular: then boot with no-kvmclock.",
        reboots: true,
        references: &["VirtualBox manual, ch. 10.4", "VirtualBox/virtualbox #580"],
    },
    FixRow {
        fix: Fix::NoKvmclock,
        title: "boot with no-kvmclock",
        what: "Leaves an irregular kvm-clock of the hypervisor aside.",
        since: "",
        risk: "Takes away what stays right through pauses and migrations.",
        reboots: true,
        references: &[
            "Documentation/admin-guide/kernel-parameters.txt (6.12)",
            "VirtualBox/virtualbox #580",
        ],
    },
    FixRow {
        fix: Fix::FewerVcpus,
        title: "give the guest fewer CPUs",
        what: "Counters of fewer virtual CPUs have less to disagree on; a guest with one CPU is not \
            compared at all.",
        since: "",
        risk: "",
        reboots: true,
        references: &["arch/x86/kernel/tsc_sync.c (6.12)"],
    },
    FixRow {
        fix: Fix::Invtsc,
        title: "give the guest an invariant TSC",
        what: "The guest's kernel then trusts its TSC, and reads it in the vDSO.",
        since: "",
        risk: "The guest cannot move live to a host with another TSC rate that does not scale it. \
            The host's own TSC must be stable.",
        reboots: true,
        references: &["QEMU documentation, CPU models", "libvirt documentation, domain XML"],
    },
    FixRow {
        fix: Fix::KvmClock,
        title: "give the guest kvm-clock",
        what: "A paravirtual clock stays right through pauses and migrations.",
        since: "",
        risk: "",
        reboots: true,
        references: &["arch/x86/kernel/kvmclock.c (4.4, 5.10)"],
    },
    FixRow {
        fix: Fix::PinVcpus,
        title: "give the virtual CPUs time to run",
        what: "A virtual CPU that is not run for long makes the watchdog see skew where there is \
            none.",
        since: "",
        risk: "",
        reboots: false,
        references: &["libvirt documentation, CPU tuning"],
    },
    FixRow {
        fix: Fix::GuestSupport,
        title: "use a kernel with guest support",
        what: "With CONFIG_HYPERVISOR_GUEST the kernel takes the TSC's rate from the hypervisor and \
            trusts it.",
        since: "",
        risk: "",
        reboots: true,
        references: &["arch/x86/kernel/cpu/vmware.c", "fbelavenuto/arpl #244"],
    },
    FixRow {
        fix: Fix::HostTsc,
        title: "mend the host's TSC first",
        what: "A guest's clock is as good as its host's TSC: without that the host states no stable \
            bit and the guest's vDSO makes system calls.",
        since: "",
        risk: "",
        reboots: true,
        references: &["arch/x86/kvm/x86.c"],
    },
    FixRow {
        fix: Fix::SuspendGuests,
        title: "suspend the guests with the host",
        what: "A guest that is told of the suspend sets its clock right afterwards; one that is not \
            finds its counter changed.",
        since: "",
        risk: "",
        reboots: false,
        references: &["QubesOS/qubes-issues #7404, #8061"],
    },
    FixRow {
        fix: Fix::SetClockAfterRestore,
        title: "set the clock after a restore",
        what: "A restored guest goes on with the wall clock of its snapshot.",
        since: "Firecracker: the restore's clock_realtime, with kvm-clock",
        risk: "The clock steps.",
        reboots: false,
        references: &["firecracker-microvm/firecracker #5809"],
    },
    FixRow {
        fix: Fix::WslShutdown,
        title: "restart WSL",
        what: "Starts WSL's virtual machine anew, with counters and rates as they are now.",
        since: "",
        risk: "Ends everything that runs in WSL.",
        reboots: true,
        references: &["microsoft/WSL #10006, #11790"],
    },
    FixRow {
        fix: Fix::Use64Bit,
        title: "use 64-bit user space",
        what: "64-bit programs read the counter in the vDSO where 32-bit ones cannot.",
        since: "",
        risk: "",
        reboots: true,
        references: &["arch/arm/kernel/vdso.c", "raspberrypi/linux #6601"],
    },
    FixRow {
        fix: Fix::Vsyscall64,
        title: "set kernel.vsyscall64 to 1",
        what: "Lets the vDSO answer by itself instead of making system calls, at once.",
        since: "kernels up to 3.0 have it",
        risk: "",
        reboots: false,
        references: &["arch/x86/kernel/vsyscall_64.c (2.6.36)"],
    },
    FixRow {
        fix: Fix::Synchronise,
        title: "run a time daemon",
        what: "Disciplines CLOCK_REALTIME by the network's time.",
        since: "",
        risk: "It may step the clock when it starts.",
        reboots: false,
        references: &["adjtimex(2)"],
    },
    FixRow {
        fix: Fix::StopTracing,
        title: "stop the tracer",
        what: "System calls cost what they cost again.",
        since: "",
        risk: "",
        reboots: false,
        references: &["kernel/trace/trace_syscalls.c"],
    },
    FixRow {
        fix: Fix::FindStall,
        title: "find what stalls the machine",
        what: "The TSC is lost again as long as the machine or guest stands still for long.",
        since: "",
        risk: "",
        reboots: false,
        references: &["Documentation/trace/hwlat_detector.rst"],
    },
    FixRow {
        fix: Fix::ReadLog,
        title: "read the kernel's log of this boot",
        what: "The kernel prints once, at boot or when it happens, why it refused the TSC.",
        since: "",
        risk: "",
        reboots: false,
        references: &["dmesg(1)", "journalctl(1)"],
    },
    FixRow {
        fix: Fix::Measure,
        title: "measure the clock's rate and the CPUs' offsets",
        what: "A minute of measurement decides what one sample of the watchdog cannot.",
        since: "",
        risk: "",
        reboots: false,
        references: &["clockscope wrongness --help"],
    },
    FixRow {
        fix: Fix::Coarse,
        title: "read a coarse clock where a tick will do",
        what: "CLOCK_MONOTONIC_COARSE and CLOCK_REALTIME_COARSE cost 4 to 13 ns whatever the \
            clocksource is.",
        since: "2.6.32",
        risk: "Up to two ticks old: for time stamps of a log, not for durations below 10 ms.",
        reboots: false,
        references: &["clock_gettime(2)"],
    },
    FixRow {
        fix: Fix::Keep,
        title: "leave the clocksource as it is",
        what: "The present source is the right one here: slower, and correct.",
        since: "",
        risk: "",
        reboots: false,
        references: &["kernel/time/clocksource.c (6.12)"],
    },
];
