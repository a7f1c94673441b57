//! The fixes by name.

use super::named;

named! {
    /// Something that can be advised, in a word; in the list of labels it has `fix:` in front.
    pub enum Fix {
        SwitchToTsc = "switch-to-tsc",
        ClocksourceTsc = "clocksource=tsc",
        SwitchToHpet = "switch-to-hpet",
        SwitchToKvmClock = "switch-to-kvm-clock",
        SwitchSource = "switch-source",
        TscNowatchdog = "tsc=nowatchdog",
        TscReliable = "tsc=reliable",
        TscRecalibrate = "tsc=recalibrate",
        TscEarlyKhz = "tsc_early_khz",
        RemoveParameter = "remove-parameter",
        NewerKernel = "newer-kernel",
        Reboot = "reboot",
        ColdBoot = "cold-boot",
        BiosUpdate = "bios-update",
        PreBootSynchroniser = "pre-boot-synchroniser",
        EnableHpet = "enable-hpet",
        HpetDisable = "hpet=disable",
        MaxCstate = "max_cstate",
        ParavirtproviderKvm = "paravirtprovider-kvm",
        NoKvmclock = "no-kvmclock",
        FewerVcpus = "fewer-vcpus",
        Invtsc = "invtsc",
        KvmClock = "kvm-clock",
        PinVcpus = "pin-vcpus",
        GuestSupport = "guest-support",
        HostTsc = "host-tsc",
        SuspendGuests = "suspend-guests",
        SetClockAfterRestore = "set-clock-after-restore",
        WslShutdown = "wsl-shutdown",
        Use64Bit = "64-bit",
        Vsyscall64 = "vsyscall64=1",
        Synchronise = "synchronise",
        StopTracing = "stop-tracing",
        FindStall = "find-stall",
        ReadLog = "read-log",
        Measure = "measure",
        Coarse = "coarse",
        Keep = "keep",
    }
}
