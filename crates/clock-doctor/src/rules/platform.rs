//! Recognises the machine, hypervisor or cloud.

use super::{EventKind, Facts, Known, Log, Sign};

/// Hints about the platform, in lower case.
#[derive(Debug, Default)]
struct Hints {
    /// DMI fields and lines.
    dmi: Vec<String>,
    /// Names of the hypervisor by CPUID, the log, systemd and sysfs.
    names: Vec<String>,
    /// Names of the CPU.
    cpus: Vec<String>,
    /// Names of clocksources.
    sources: Vec<String>,
    /// The kernel's release and the words next to it.
    kernel: String,
    /// `DMI not present or invalid`
    dmi_absent: bool,
    /// A device tree names the board.
    board: bool,
    /// Platforms with a line in the log that no other platform prints.
    lines: Vec<&'static str>,
    /// `Booting paravirtualized kernel on bare hardware`
    bare_hardware: bool,
    /// The CPU reports a hypervisor.
    flag: bool,
}

/// Words that show a platform, separated by `|`: in DMI, in names of hypervisors, and beginnings of names of
/// clocksources.
const WORDS: [(&str, &str, &str, &str); 11] = [
    ("virtualbox", "virtualbox|innotek", "oracle|vboxvbox", ""),
    ("vmware", "vmware", "vmware", ""),
    ("xen", "xen", "xen", "xen"),
    ("kvm", KVM, "kvm|linux kvm|linux,kvm", "kvm-clock"),
    ("qemu", "qemu|bochs|red hat kvm|standard pc (", "qemu|tcgtcg", ""),
    ("hyperv", "hyper-v", "microsoft|hyper-v|hyperv", "hyperv_clocksource"),
    ("aws", "amazon", "amazon", ""),
    ("gce", "google compute engine", "google", ""),
    ("bhyve", "bhyve", "bhyve", ""),
    ("cloud-hypervisor", "cloud hypervisor|cloud-hypervisor", "", ""),
    ("riscv64", "", "", "riscv_clocksource"),
];
/// Makers of KVM guests.
const KVM: &str = "kvm|openstack|kubevirt|ovirt|nutanix|alibaba cloud|digitalocean|rhev";

/// The words of such a list.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split('|').filter(|word| !word.is_empty())
}

impl Hints {
    fn of(facts: &Facts) -> Hints {
        let mut hints = Hints::default();
        for sign in &facts.signs {
            match &sign.value {
                Sign::Dmi(_, value) => hints.dmi.push(value.to_lowercase()),
                Sign::Hypervisor(name) => hints.names.push(name.to_lowercase()),
                Sign::Xen => hints.lines.push("xen"),
                Sign::Container(name) => hints.names.push(format!("container {name}")),
            }
        }
        hints.flag = facts.cpu.flag("hypervisor") == Some(true);
        for event in facts.events() {
            hints.line(&event.kind);
        }
        if let Some(kernel) = &facts.kernel {
            let text = format!("{} {}", kernel.value.release, kernel.evidence.text);
            hints.kernel.push_str(&text.to_lowercase());
        }
        hints.cpus.extend(facts.cpu.model.iter().map(|model| model.value.to_lowercase()));
        hints.sources.extend(facts.current.iter().map(|known| known.value.clone()));
        hints.sources.extend(facts.available.iter().flat_map(|known| known.value.clone()));
        if let Some(measured) = &facts.measured {
            let cpuid = facts.cpuid().and_then(|cpuid| cpuid.hypervisor.as_ref());
            hints.names.extend(cpuid.map(|name| name.to_lowercase()));
            hints.names.extend(measured.host.virtualisation.clone());
        }
        hints
    }

    fn line(&mut self, kind: &EventKind) {
        use EventKind::*;
        match kind {
            Dmi(text) => self.dmi.push(text.to_lowercase()),
            DmiAbsent => self.dmi_absent = true,
            MachineModel(name) => self.board |= !name.contains("virt"),
            Hypervisor(name) if name.contains("bare hardware") => self.bare_hardware = true,
            Hypervisor(name) => self.names.push(name.to_lowercase()),
            KvmClock => self.lines.push("kvm"),
            RateFromHypervisor(_) | NoRateFromHypervisor => self.lines.push("vmware"),
            HyperVNoInvariantTsc => self.lines.push("hyperv"),
            // `ARM_ARCH_TIMER_OOL_WORKAROUND` of drivers/clocksource/Kconfig depends on ARM64 (Linux 6.12).
            ArmWorkaround(_) | ArmTrapping => self.lines.push("arm64"),
            HostUnstable => self.lines.push("host"),
            kind if kind.is_about_hyperv() => self.lines.push("hyperv"),
            PvclockUnstable => self.lines.push("xen"),
            OfPlatform(name) => self.lines.push(name),
            Confidential(_) | VirtualMachine => self.flag = true,
            CpuModel { name, .. } => self.cpus.push(name.to_lowercase()),
            LinuxVersion(text) => self.kernel.push_str(&text.to_lowercase()),
            kind => self.sources.extend(kind.clocksources().map(str::to_owned)),
        }
    }

    /// Whether a line or a word shows the platform.
    fn show(&self, platform: &str) -> bool {
        let words = WORDS.iter().find(|(name, ..)| *name == platform);
        self.lines.contains(&platform)
            || words.is_some_and(|(_, dmi, names, sources)| {
                self.dmi(dmi)
                    || self.named(names)
                    || self::words(sources).any(|name| self.source(name))
            })
    }

    fn dmi(&self, list: &str) -> bool {
        self.dmi.iter().any(|field| words(list).any(|word| field.contains(word)))
    }

    /// Whether one of the names begins with one of the words, or has it after a blank.
    fn named(&self, list: &str) -> bool {
        let is =
            |name: &str, word: &str| name.starts_with(word) || name.contains(&format!(" {word}"));
        self.names.iter().any(|name| words(list).any(|word| is(name, word)))
    }

    fn source(&self, start: &str) -> bool {
        self.sources.iter().any(|name| name.starts_with(start))
    }

    fn is_qemu(&self) -> bool {
        const CPUS: &str = "qemu virtual cpu|common kvm processor|32-bit kvm processor";
        self.show("qemu") || self.cpus.iter().any(|name| words(CPUS).any(|cpu| name.contains(cpu)))
    }

    fn is_hyperv(&self) -> bool {
        let machine = self.dmi("microsoft corporation") && self.dmi("virtual machine");
        machine || self.show("hyperv")
    }

    /// The kernel of Docker's virtual machine on a Mac; later ones run on Apple's own hypervisor.
    fn is_hyperkit(&self, facts: &Facts) -> bool {
        let linuxkit = self.kernel.contains("linuxkit");
        let old = facts.kernel().is_some_and(|kernel| !kernel.at_least(5, 15));
        let bhyve = self.dmi("bhyve") || self.named("bhyve");
        self.dmi("hyperkit") || linuxkit && (bhyve || old && !self.is_hyperv() && !self.show("kvm"))
    }

    /// The fixed version that gVisor's Sentry reports.
    fn is_gvisor(&self) -> bool {
        let fixed =
            self.kernel.contains("4.4.0 ") && self.kernel.contains("sun jan 10 15:06:54 pst 2016");
        fixed || self.named("gvisor")
    }
}

/// Prefixes of manufacturers' names in DMI. Another name proves nothing, because clouds and hypervisors choose their
/// names freely.
const MAKERS: &str = "acer|apple inc|asrock|asus|biostar|cisco systems|clevo|dell|dfi|ecs|epox|evga|foxconn|framework|fujitsu|\
    gigabyte|hewlett-packard|hewlett packard|hp |huawei|ibm|inspur|intel corp|lenovo|medion|micro-star|msi |packard bell|\
    panasonic|quanta|razer|samsung|sony|supermicro|to be filled by o.e.m|toshiba|tuxedo|tyan";
/// Words in DMI that show a virtual machine of any hypervisor.
const VIRTUAL: &str = "virt|kvm|qemu|cloud|compute|bhyve|oxide|stack|droplet|xen|vm|hypervisor";

fn is_bare_metal(hints: &Hints, facts: &Facts) -> bool {
    let measured = facts.measured.as_ref();
    let said = measured.and_then(|it| it.host.virtualisation.as_deref());
    let by_cpuid = facts.cpuid().map(|it| it.hypervisor.is_none());
    if hints.flag || said.is_some_and(|name| name != "none") || by_cpuid == Some(false) {
        return false;
    }
    let maker =
        |field: &String| words(MAKERS).any(|name| field.starts_with(name) || field == name.trim());
    let has_maker = hints.dmi.iter().any(maker) || hints.bare_hardware && !hints.dmi.is_empty();
    let made = has_maker && !hints.dmi(VIRTUAL);
    let unflagged =
        facts.cpu.flag("hypervisor") == Some(false) && facts.cpu.flag("tsc") == Some(true);
    // A host of guests, whose log begins at the boot and names no hypervisor.
    let is_host = hints.lines.contains(&"host") && facts.log.as_ref().is_some_and(Log::is_complete);
    said == Some("none") || by_cpuid == Some(true) || made || unflagged || hints.board || is_host
}

/// All recognised platforms, the most specific first.
pub(crate) fn platforms(facts: &Facts) -> Vec<&'static str> {
    let hints = Hints::of(facts);
    let mut found = virtual_platforms(&hints, facts);
    if found.iter().all(|name| *name == "aws") && is_bare_metal(&hints, facts) {
        found.push("bare-metal");
    }
    match facts.cpu.machine_name() {
        _ if facts.cpu.is_arm32 => found.push("arm32"),
        Some("aarch64" | "arm64") => found.push("arm64"),
        Some(name) if name.starts_with("armv") => found.push("arm32"),
        Some("riscv64") => found.push("riscv64"),
        _ if hints.show("riscv64") => found.push("riscv64"),
        _ if hints.show("arm64") || boots_arm64(facts) => found.push("arm64"),
        // The global timer of Cortex-A5 and A9, which no 64-bit core has.
        _ if hints.source("arm_global_timer") => found.push("arm32"),
        _ => {}
    }
    found
}

fn virtual_platforms(hints: &Hints, facts: &Facts) -> Vec<&'static str> {
    // With its provider kvm or hyperv, VirtualBox identifies itself as KVM or Hyper-V everywhere except in DMI.
    if hints.show("virtualbox") {
        return vec!["virtualbox"];
    }
    let (vmware, xen) = (hints.show("vmware"), hints.show("xen"));
    let (kvm, qemu) = (hints.show("kvm"), hints.is_qemu());
    let release = |word: &str| hints.kernel.contains(word);
    let wsl = release("microsoft") || release("-wsl2") || hints.named("wsl");
    let hyperv = wsl || hints.is_hyperv();
    let of_aws = (kvm || xen) && !qemu && (release("-aws") || release(".amzn"));
    let by_google = hints.dmi.iter().any(|field| field == "google") && (kvm || hints.flag);
    let tag = hints.dmi("7783-7084-3265-9085-8269-3286-77");
    let hyperkit = hints.is_hyperkit(facts);

    // Two hypervisors that do not belong together: the log names the inner one.
    let nested = xen && (qemu || vmware || hints.dmi("virtual machine"));
    let no_dmi = kvm && hints.dmi_absent && !hyperv && !boots_arm64(facts);

    let all = [
        (hints.is_gvisor(), "gvisor"),
        (wsl, "wsl"),
        (hyperv && !wsl && (tag || release("-azure")), "azure"),
        (hints.show("aws") || of_aws, "aws"),
        (hints.show("gce") || by_google || kvm && !qemu && release("-gcp"), "gce"),
        (hints.show("firecracker") || no_dmi, "firecracker"),
        (hints.show("cloud-hypervisor"), "cloud-hypervisor"),
        (vmware, "vmware"),
        (xen, "xen"),
        (kvm, "kvm"),
        (qemu, "qemu"),
        (hyperv, "hyperv"),
        (hyperkit, "hyperkit"),
        (hints.show("bhyve") && !hyperkit, "bhyve"),
        (nested, "nested"),
    ];
    all.into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
}

/// Whether a 64-bit ARM kernel has booted: its first line, and its line for each CPU, give the CPU's MIDR.
fn boots_arm64(facts: &Facts) -> bool {
    facts
        .events()
        .any(|event| event.kind == EventKind::ArmBoot && event.evidence.text.contains(" [0x"))
}

/// Whether these platforms are virtual machines. A cloud alone does not prove one, because clouds rent whole machines
/// too.
pub(super) fn is_vm(platforms: &[&str]) -> bool {
    let other = ["aws", "bare-metal", "arm64", "arm32", "riscv64"];
    platforms.iter().any(|name| !other.contains(name))
}

/// Whether a CPU or a log shows a hypervisor, known or not.
pub(super) fn has_hypervisor(facts: &Facts, platforms: &[&str]) -> bool {
    is_vm(platforms) || Hints::of(facts).flag
}

/// Whether any fact shows that this is a guest. A cloud's machine counts as a guest unless a fact shows a whole
/// machine; a hypervisor without a name counts too.
pub(super) fn is_guest(facts: &Facts, platforms: &[&str]) -> bool {
    let signed = |sign: &Known<Sign>| matches!(sign.value, Sign::Hypervisor(_));
    !platforms.contains(&"bare-metal")
        && (has_hypervisor(facts, platforms)
            || platforms.contains(&"aws")
            || facts.signs.iter().any(signed))
}
