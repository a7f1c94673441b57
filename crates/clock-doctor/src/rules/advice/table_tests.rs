//! Every fix on every platform and kernel: whether it applies, and the result of its Verify commands. A small model of
//! the kernel, with the real ratings, applies the fix and is then checked.
//!
//! The table is docs/fixes.md: `CLOCKSCOPE_WRITE_FIXES=1 cargo test -p clock-doctor table_tests` rewrites it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::*;
use crate::collect::tests::facts_of;
use crate::rules::catalogue::{Fix, Label};
use crate::rules::state;

const CLOCKSOURCES: &str = "sys/devices/system/clocksource/clocksource0";
const FLAGS: &str = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht";

/// Kernels: column head, release, and the version of the rules.
const KERNELS: [(&str, &str, (u32, u32)); 5] = [
    ("2.6.32", "2.6.32-5-amd64", (2, 6)),
    ("Red Hat 6", "2.6.32-754.el6.x86_64", (2, 6)),
    ("Red Hat 7", "3.10.0-1160.el7.x86_64", (3, 10)),
    ("6.12", "6.12.5-amd64", (6, 12)),
    ("7.1", "7.1.2-amd64", (7, 1)),
];

/// A machine of one platform.
#[derive(Clone, Copy)]
struct Kind {
    /// The name in the table.
    name: &'static str,
    /// DMI's vendor and product.
    dmi: (&'static str, &'static str),
    /// Log lines that show the platform, separated by `; `.
    log: &'static str,
    /// The hypervisor's clock, if the kernel has one.
    clock: Option<&'static str>,
    /// The CPU reports constant_tsc and nonstop_tsc.
    is_invariant: bool,
    /// The best device.
    device: &'static str,
    /// `uname -m`, unless it is x86_64; such a machine has no TSC.
    other: Option<&'static str>,
    /// The CPU's vendor and family.
    cpu: (&'static str, u32),
}

const KVM: &str = "[    0.000000] Hypervisor detected: KVM\n[    0.000000] kvm-clock: Using msrs 4b564d01 and 4b564d00\n";
const K8: &str = "bare-metal with an AMD K8";
const PAGE: &str = "hyperv_clocksource_tsc_page";

/// All platforms; a platform with several kinds of guest has a row for each. `-` stands for nothing.
const KINDS: &str = include_str!("table_kinds.txt");

fn kinds() -> Vec<Kind> {
    let kind = |row: &'static str| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [name, vendor, product, clock, invariant, device, other, log] = cells[..] else {
            panic!("{row}")
        };
        let some = |cell: &'static str| Some(cell).filter(|cell| *cell != "-");
        let dmi = (some(vendor).unwrap_or_default(), some(product).unwrap_or_default());

        Kind {
            name,
            dmi,
            log: some(log).unwrap_or_default(),
            clock: some(clock),
            is_invariant: invariant == "invariant",
            device,
            other: some(other),
            cpu: if name == K8 { ("AuthenticAMD", 15) } else { ("GenuineIntel", 6) },
        }
    };
    KINDS.lines().skip(1).map(kind).collect()
}

/// The model of the kernel's choice: its platform and version, and its command line.
#[derive(Clone)]
struct Chooser {
    kind: Kind,
    version: (u32, u32),
    line: Vec<String>,
    /// The watchdog has given the TSC up since the boot.
    is_lost: bool,
}

impl Chooser {
    /// Clocksources with their ratings, the best first (`arch/x86/kernel/tsc.c`, `kvmclock.c`, `arch/x86/xen/time.c`,
    /// `drivers/clocksource/hyperv_timer.c`).
    fn rated(&self) -> Vec<(&'static str, u32)> {
        let has = |word: &str| self.line.iter().any(|one| one == word);
        let rating = match self.kind.device {
            "hpet" => 250,
            "refined-jiffies" => 2,
            _ => 200,
        };
        let mut rated = vec![(self.kind.device, rating)];
        if self.kind.other.is_some() {
            return rated;
        }
        // Devices in addition to the best one.
        for (name, rating) in [("acpi_pm", 200), ("pit", 110)] {
            if self.kind.device != name && has(&format!("clocksource={name}")) {
                rated.push((name, rating));
            }
        }
        if !self.is_lost && !has("notsc") && !has("tsc=unstable") {
            rated.push(("tsc", 300));
        }
        let lowered = match self.kind.clock {
            Some("kvm-clock") => self.version >= (5, 1),
            Some("xen") => self.version >= (6, 12),
            _ => self.version >= (5, 10),
        };
        // Red Hat's 6 and 7 have Hyper-V's page by then; 2.6.32 itself has no such clock.
        let is_there = match self.kind.clock {
            Some("kvm-clock") => !has("no-kvmclock"),
            Some(PAGE) => self.version >= (3, 10),
            _ => true,
        };
        if let Some(clock) = self.kind.clock.filter(|_| is_there) {
            let low = if clock == PAGE { 250 } else { 299 };
            rated.push((clock, if lowered && self.kind.is_invariant { low } else { 400 }));
        }
        rated.sort_by_key(|(_, rating)| std::cmp::Reverse(*rating));
        rated
    }

    fn current(&self) -> &'static str {
        let rated = self.rated();
        let asked = self.line.iter().rev().find_map(|word| word.strip_prefix("clocksource="));
        let found = asked.and_then(|name| rated.iter().find(|(one, _)| *one == name));
        found.or(rated.first()).unwrap().0
    }

    /// Whether doctor can report "fast": whether the vDSO reads the current clocksource.
    fn is_fast(&self) -> bool {
        match self.current() {
            "tsc" => true,
            "kvm-clock" => self.version >= (3, 8),
            PAGE => self.version >= (4, 12),
            "arch_sys_counter" => self.kind.other == Some("aarch64"),
            _ => false,
        }
    }

    /// The machine after that fix: after a boot, or with another current clocksource.
    fn after(&self, fix: Fix, advice: &Advice) -> Chooser {
        // If a K8 has a second core, the kernel gives the TSC up at each boot (`unsynchronized_tsc`).
        let mut after = Chooser { is_lost: self.kind.name == K8, ..self.clone() };
        if let Some(parameters) = &advice.kernel_parameters {
            after.line.retain(|word| !parameters.remove.contains(word));
            after.line.extend(parameters.add.iter().cloned());
        } else if let Some(words) = advice.verify.iter().find_map(|line| line.split_once(HAVE)) {
            // An outside boot loader sets the words that the commands name.
            let named = |word: &&str| advice.commands.iter().any(|line| line.contains(word));
            after.line.extend(words.1.split(' ').filter(named).map(str::to_owned));
        }
        match fix {
            Fix::SwitchToTsc | Fix::SwitchToHpet | Fix::SwitchToKvmClock | Fix::SwitchSource => {
                let name = advice
                    .commands
                    .iter()
                    .find_map(|line| line.strip_prefix("echo ")?.split(' ').next());
                after.is_lost = self.is_lost;
                after.line.push(format!("clocksource={}", name.unwrap()));
            }
            Fix::NoKvmclock => after.line.push("no-kvmclock".to_owned()),
            Fix::RemoveParameter => after.line.retain(|word| word != "notsc"),
            Fix::Invtsc => after.kind.is_invariant = true,
            Fix::KvmClock | Fix::ParavirtproviderKvm => after.kind.clock = Some("kvm-clock"),
            Fix::EnableHpet => after.kind.device = "hpet",
            Fix::NewerKernel => after.version = KERNELS[KERNELS.len() - 1].2,
            Fix::Use64Bit => after.kind.other = Some("aarch64"),
            Fix::GuestSupport => {
                after.kind.log = "vmware: TSC freq read from hypervisor : 2394.000 MHz";
            }
            _ => {}
        }
        after
    }

    /// The kernel's log.
    fn log(&self, release: &str) -> String {
        let booted = Chooser { is_lost: false, ..self.clone() };
        let mut log = format!("[    0.000000] Linux version {release} (gcc)\n");
        for line in self.kind.log.split("; ").filter(|line| !line.is_empty()) {
            log += &format!("[    0.000000] {line}\n");
        }
        if self.kind.clock == Some("kvm-clock") && !log.contains("kvm-clock") {
            log += "[    0.000000] kvm-clock: Using msrs 4b564d01 and 4b564d00\n";
        }
        log += &format!("[    0.900000] Switched to clocksource {}\n", booted.current());
        if self.is_lost && self.kind.other.is_none() {
            log += "[  900.000000] tsc: Marking TSC unstable due to clocksource watchdog\n";
            log += &format!("[  900.100000] Switched to clocksource {}\n", self.current());
        }
        log
    }

    /// The files of the machine while its TSC is given up, or while a device is selected by the user.
    fn facts(&self, release: &str) -> Facts {
        let mut files = Vec::new();
        let mut write = |name: &str, text: &str| files.push((name.to_owned(), text.to_owned()));
        let machine = self.kind.other.unwrap_or("x86_64");
        let names: Vec<&str> = self.rated().iter().map(|(name, _)| *name).collect();
        write("var/log/dmesg", &self.log(release));
        write("proc/sys/kernel/osrelease", release);
        write("proc/sys/kernel/arch", machine);
        write("proc/cmdline", &self.line.join(" "));
        write(&format!("{CLOCKSOURCES}/current_clocksource"), self.current());
        write(&format!("{CLOCKSOURCES}/available_clocksource"), &names.join(" "));
        write("sys/class/dmi/id/sys_vendor", self.kind.dmi.0);
        write("sys/class/dmi/id/product_name", self.kind.dmi.1);
        if self.kind.other.is_none() {
            let invariant = if self.kind.is_invariant { "constant_tsc nonstop_tsc" } else { "" };
            let guest = if self.kind.name.starts_with("bare-metal") { "" } else { "hypervisor" };
            write(
                "proc/cpuinfo",
                &format!(
                    "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {}\nflags\t\t: {FLAGS} {invariant} {guest}\n",
                    self.kind.cpu.0, self.kind.cpu.1,
                ),
            );
        }
        facts_of(&files.iter().map(|(name, text)| (&**name, &**text)).collect::<Vec<_>>())
    }
}

/// The machine that a fix is meant for.
fn sick(fix: Fix, kind: Kind, version: (u32, u32)) -> Chooser {
    let line = match fix {
        // The user selected a device for a TSC that the kernel keeps, or the kernel refuses the TSC.
        Fix::SwitchToTsc | Fix::ClocksourceTsc | Fix::SwitchToKvmClock => {
            format!("clocksource={}", kind.device)
        }
        Fix::SwitchToHpet => "clocksource=acpi_pm".to_owned(),
        Fix::SwitchSource => "clocksource=pit".to_owned(),
        Fix::RemoveParameter => "notsc".to_owned(),
        _ => "quiet".to_owned(),
    };
    let is_lost = !matches!(
        fix,
        Fix::SwitchToTsc | Fix::ClocksourceTsc | Fix::RemoveParameter | Fix::SwitchToKvmClock
    );
    Chooser { kind, version, line: vec![line], is_lost }
}

/// The facts of machines by their files, as a cache.
type Known = HashMap<String, (Facts, Verdict)>;

fn written(fix: Fix, machine: &Chooser, release: &str, known: &mut Known) -> Option<Advice> {
    let key =
        format!("{} {release} {} {}", machine.kind.name, machine.line.join(" "), machine.is_lost);
    let (facts, verdict) = &*known.entry(key).or_insert_with(|| {
        let facts = machine.facts(release);
        let verdict = state::verdict(&facts);
        (facts, verdict)
    });
    let labels =
        [Label::TscWatchdogSkew, Label::ParamTscUnstable, Label::WatchdogFalsePositiveLikely];
    let labels = match fix {
        Fix::NewerKernel => vec![Label::VdsoSupportDependsOnKernel],
        _ => labels.to_vec(),
    };
    let findings: Vec<Finding> = labels.into_iter().map(Finding::new).collect();
    write(fix, facts, verdict, &findings.iter().collect::<Vec<_>>())
}

/// Lines of Verify with results that do not follow from the machine: the fix, the line, and the reason.
const OPEN: &str = include_str!("table_open.tsv");
const HAVE: &str = "/proc/cmdline   # must have ";

/// Whether `grep` with those patterns prints a line of the log.
fn greps(command: &str, log: &str) -> bool {
    let (command, log) = match command.contains(" -i ") {
        true => (command.to_lowercase(), log.to_lowercase()),
        false => (command.to_owned(), log.to_owned()),
    };
    let quoted: Vec<&str> = command.split('\'').skip(1).step_by(2).collect();
    let bare = command.rsplit(' ').next().unwrap();
    let patterns = if quoted.is_empty() { vec![bare] } else { quoted };
    let has = |line: &str, pattern: &str| {
        let mut parts = pattern.split(".*");
        parts.try_fold(line, |rest, part| Some(rest.split_once(part)?.1)).is_some()
    };
    log.lines().any(|line| patterns.iter().any(|pattern| has(line, pattern)))
}

/// Whether the result that a Verify line promises is right after the fix; `None` if the machine does not show it.
fn comes_true(line: &str, before: &Chooser, after: &Chooser, release: &str) -> Option<bool> {
    let words = |label: &str| line.split_once(label).map(|(_, rest)| rest);
    let has = |word: &str| after.line.iter().any(|one| one == word);
    let lists = |name: &str| after.rated().iter().any(|(one, _)| *one == name);
    if let Some(names) = words("/current_clocksource   # must print ") {
        let names = names.split(';').next().unwrap_or_default();
        Some(names.split(", or ").any(|name| name == after.current()))
    } else if line.ends_with("must say: fast") {
        Some(after.is_fast())
    } else if let Some(words) = words(HAVE) {
        Some(words.split(' ').all(has))
    } else if let Some(words) = words("/proc/cmdline   # must not have ") {
        Some(!words.split(", ").any(has))
    } else if let Some((_, name)) = line.split_once("available_clocksource   # must have ") {
        Some(lists(name))
    } else if let Some(words) = words("`Override clocksource ") {
        Some(lists(words.split(' ').next().unwrap_or_default()))
    } else if line.contains("grep -o -m1 nonstop_tsc") {
        Some(after.kind.is_invariant)
    } else if let Some(version) = words("uname -r   # must be ") {
        let (major, minor) = version.split_once(' ')?.0.split_once('.')?;
        Some(after.version >= (major.parse().ok()?, minor.parse().ok()?))
    } else if line.contains("/proc/sys/kernel/vsyscall64   # must print 1") {
        Some(before.version < (3, 1))
    } else {
        let (command, wanted) = line.strip_prefix("sudo dmesg | grep ")?.split_once("   # ")?;
        let prints = greps(&format!("grep {command}"), &after.log(release));
        match () {
            () if wanted.contains("must print nothing") => Some(!prints),
            () if wanted.contains("must print") => Some(prints),
            () => None,
        }
    }
}

/// The results of the Verify lines.
#[derive(Default)]
struct Tried {
    wrong: Vec<String>,
    open: BTreeSet<(String, String)>,
}

/// Checks each Verify line against the machine after the fix; returns the text for the table.
fn verified(
    fix: Fix,
    advice: &Advice,
    before: &Chooser,
    release: &str,
    tried: &mut Tried,
) -> String {
    let after = before.after(fix, advice);
    let mut shown = "yes".to_owned();
    for line in &advice.verify {
        if let Some((_, names)) = line.split_once("/current_clocksource   # must print ") {
            shown = names.split(';').next().unwrap_or_default().to_owned();
        }
        match comes_true(line, before, &after, release) {
            Some(true) => {}
            Some(false) => tried.wrong.push(format!(
                "{fix} on {} {:?}: `{line}`, but {} is current",
                before.kind.name,
                before.version,
                after.current()
            )),
            None => {
                tried.open.insert((fix.name().to_owned(), line.clone()));
            }
        }
    }
    shown
}

/// The table, and the Verify lines that are wrong.
fn table() -> (String, Tried) {
    let heads: Vec<&str> = KERNELS.iter().map(|(head, ..)| *head).collect();
    let mut table = format!(
        "| fix | platforms | {} |\n|---|---|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    let (mut known, mut tried) = (Known::new(), Tried::default());
    for fix in Fix::ALL {
        // The output on each kernel, and the platforms that have it.
        let mut rows: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
        for kind in kinds() {
            let mut cells = Vec::new();
            for (_, release, version) in KERNELS {
                let machine = sick(fix, kind, version);
                let advice = written(fix, &machine, release, &mut known);
                cells.push(advice.map_or("-".to_owned(), |advice| {
                    verified(fix, &advice, &machine, release, &mut tried)
                }));
            }
            rows.entry(cells).or_default().push(kind.name);
        }
        for (cells, platforms) in
            rows.into_iter().rev().filter(|(cells, _)| cells.iter().any(|cell| cell != "-"))
        {
            let who = if platforms.len() == kinds().len() {
                "all".to_owned()
            } else {
                platforms.join(", ")
            };
            table += &format!("| {fix} | {who} | {} |\n", cells.join(" | "));
        }
    }
    (table, tried)
}

/// The page without its two tables.
const PAGE_TEXT: &str = include_str!("table_page.md");

#[test]
fn every_verify_can_come_true_and_the_table_says_what_it_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fixes.md");
    let (table, tried) = table();
    let has_row = |fix: &Fix| table.contains(&format!("\n| {fix} |"));
    let without: Vec<Fix> = Fix::ALL.into_iter().filter(|fix| !has_row(fix)).collect();
    assert_eq!(without, [], "fixes that no machine of the table gets");
    assert!(tried.wrong.is_empty(), "{}", tried.wrong.join("\n"));
    let open: Vec<Vec<&str>> = OPEN.lines().map(|row| row.split('\t').collect()).collect();
    let listed = open.iter().map(|row| (row[0].to_owned(), row[1].to_owned()));
    assert_eq!(tried.open, listed.collect(), "lines that are not predicted, and those listed so");
    let row = |row: &Vec<&str>| {
        let line = row[1].replace('|', "\\|").replace('`', "'");
        format!("| {} | `{line}` | {} |\n", row[0], row[2])
    };
    let rows: String = open.iter().map(row).collect();
    let page = PAGE_TEXT.replace("{table}\n", &table).replace("{open}\n", &rows);
    if std::env::var_os("CLOCKSCOPE_WRITE_FIXES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/fixes.md is out of date: CLOCKSCOPE_WRITE_FIXES=1 cargo test -p clock-doctor table_tests"
    );
}

#[test]
fn a_reboot_that_cannot_bring_the_tsc_back_is_not_advised() {
    let find = |name: &str| kinds().into_iter().find(|kind| kind.name == name).unwrap();
    let reboot = |name: &str, kernel: usize| {
        let (_, release, version) = KERNELS[kernel];
        written(Fix::Reboot, &sick(Fix::Reboot, find(name), version), release, &mut Known::new())
            .is_some()
    };
    assert!(!reboot("kvm", 1) && !reboot("kvm", 2) && !reboot("kvm", 3) && !reboot("xen", 2));
    assert!(reboot("kvm with invtsc", 3) && !reboot("kvm with invtsc", 2));
    assert!(reboot("bare-metal", 0) && reboot("vmware", 3) && !reboot("arm64", 3));
}

#[test]
fn nothing_leads_a_cpu_that_drifts_to_the_tsc() {
    let k8 = kinds().into_iter().find(|kind| kind.name == K8).unwrap();
    let mut known = Known::new();
    for (_, release, version) in KERNELS {
        for fix in Fix::ALL {
            let advice = written(fix, &sick(fix, k8, version), release, &mut known);
            let leads = advice.filter(|advice| {
                AIMS_AT_TSC.contains(&fix)
                    || advice.verify.iter().any(|line| line.contains("print tsc"))
            });
            assert!(leads.is_none(), "{fix} on {release}: {leads:?}");
        }
    }
}

/// Without a list of clocksources, the log's order shows which one has the higher rating.
#[test]
fn what_was_current_when_the_tsc_was_given_up_outranks_it() {
    const LOST: &str = "tsc: Marking TSC unstable due to clocksource watchdog";
    const KVM_CLOCK: &str = "clocksource: Switched to clocksource kvm-clock";
    const TSC: &str = "clocksource: Switched to clocksource tsc";
    let verify = |lines: &[&str]| {
        let head = format!("[    0.0] Linux version 6.12.5-amd64 (gcc)\n{KVM}");
        let stamped =
            lines.iter().zip(1..).map(|(line, second)| format!("[    {second}.0] {line}\n"));
        let log = head + &stamped.collect::<String>();
        let facts = facts_of(&[("var/log/dmesg", &log)]);
        let finding = Finding::new(Label::TscWatchdogSkew);
        let advice = write(Fix::Reboot, &facts, &state::verdict(&facts), &[&finding]);
        let first = advice.map(|advice| advice.verify[0].clone());
        first.map(|line| line.rsplit_once("must print ").unwrap().1.to_owned())
    };
    assert_eq!(verify(&[KVM_CLOCK, LOST]), None);
    // A switch because the TSC was given up says nothing about ratings.
    assert_eq!(verify(&[KVM_CLOCK, TSC, LOST, KVM_CLOCK]).as_deref(), Some("tsc"));
    let says = "clocksource:                       'kvm-clock' (not 'tsc') is current clocksource.";
    assert_eq!(verify(&[LOST, says]), None);
    assert_eq!(verify(&[LOST, KVM_CLOCK]).as_deref(), Some("tsc, or kvm-clock"));
}
