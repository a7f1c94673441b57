//! The state of a host as far as files show it. The files are read below a root, which may be a recorded host's.

use std::fs;
use std::path::{Path, PathBuf};

use super::virtualisation::Signs;
use clock_doctor::collect::{count_cpus, field};
use clockscope_model::host::HostState;

/// The inode of the initial time namespace (`PROC_TIME_INIT_INO` in include/linux/proc_ns.h).
const INITIAL_TIME_NAMESPACE: &str = "time:[4026531834]";

/// Fills in the fields that files below `root` supply; all others stay unknown.
pub(crate) fn from_files(root: &Path) -> HostState {
    let files = Files(root);
    let status = files.text("proc/self/status").unwrap_or_default();
    let clocksource = |name: &str| {
        files.text(&format!("sys/devices/system/clocksource/clocksource0/{name}_clocksource"))
    };
    let tsc = files.text("sys/devices/system/cpu/cpu0/tsc_freq_khz");
    let tsc_hz_kernel = tsc.and_then(|text| text.trim().parse::<f64>().ok()).map(|khz| khz * 1e3);
    let cpus = files.text("sys/devices/system/cpu/online").and_then(|text| count_cpus(&text));
    HostState {
        cpu_model: files.text("proc/cpuinfo").and_then(|text| cpu_model(&text)),
        cpus_online: cpus.unwrap_or(0),
        clocksource: clocksource("current").map(|text| text.trim().to_owned()),
        clocksources_available: words(&clocksource("available").unwrap_or_default()),
        tsc_hz_kernel,
        tsc_hz_source: tsc_hz_kernel.map(|_| "tsc_freq_khz in /sys".to_owned()),
        load: files.text("proc/loadavg").and_then(|text| load(&text)),
        seccomp: field(&status, "Seccomp").and_then(seccomp_mode),
        time_namespace: time_namespace(&files),
        traced_by: field(&status, "TracerPid")
            .and_then(|pid| pid.parse().ok())
            .filter(|pid| *pid != 0),
        command_line: files.text("proc/cmdline").map(|text| text.trim().to_owned()),
        ..HostState::default()
    }
}

/// Signs of a hypervisor in files. `kernel` is the kernel's release; the caller adds CPUID.
pub(super) fn signs_of_virtualisation(root: &Path, kernel: &str) -> Signs {
    let files = Files(root);
    let dmi = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];
    let cpuinfo = files.text("proc/cpuinfo").unwrap_or_default();
    let xen = files.path("proc/xen").exists();
    Signs {
        cpuid: None,
        dmi: dmi
            .iter()
            .filter_map(|name| files.text(&format!("sys/class/dmi/id/{name}")))
            .collect(),
        xen: xen.then(|| files.text("proc/xen/capabilities").unwrap_or_default()),
        sys_hypervisor: files.text("sys/hypervisor/type"),
        device_tree: files.text("sys/firmware/devicetree/base/hypervisor/compatible"),
        kernel: kernel.to_owned(),
        user_mode: field(&cpuinfo, "vendor_id") == Some("User Mode Linux"),
        flag: field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor")),
    }
}

/// Files below a root.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    fn text(&self, below: &str) -> Option<String> {
        let bytes = fs::read(self.path(below)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let name = field(cpuinfo, "model name").or_else(|| field(cpuinfo, "Model"));
    let implementer = || {
        let (who, part) = (field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?);
        Some(format!("implementer {who}, part {part}"))
    };
    name.map(str::to_owned).or_else(implementer).filter(|name| !name.is_empty())
}

fn load(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

fn seccomp_mode(number: &str) -> Option<String> {
    let mode = ["none", "strict", "filter"].get(number.parse::<usize>().ok()?)?;
    Some((*mode).to_owned())
}

fn time_namespace(files: &Files) -> Option<String> {
    let namespace = |name: &str| {
        let link = fs::read_link(files.path(&format!("proc/self/ns/{name}"))).ok()?;
        Some(link.to_string_lossy().into_owned())
    };
    let own = namespace("time")?;
    if own == INITIAL_TIME_NAMESPACE {
        return Some("none".to_owned());
    }
    // `timens_offsets` has the offsets of the children's namespace, which may differ from this process's own.
    let offsets = files.text("proc/self/timens_offsets");
    let offsets =
        offsets.filter(|_| namespace("time_for_children").is_some_and(|name| name == own));
    Some(offsets.map_or_else(|| "of unknown offsets".to_owned(), |text| offsets_text(&text)))
}

/// `monotonic  86400  0` and so on as `monotonic +86400 s, boottime +0 s`.
fn offsets_text(offsets: &str) -> String {
    let clock = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, seconds, nanos) = (words.next()?, words.next()?, words.next()?);
        let (seconds, nanos): (i64, u32) = (seconds.parse().ok()?, nanos.parse().ok()?);
        let fraction = format!("{nanos:09}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        Some(format!("{name} {seconds:+}{point}{fraction} s"))
    };
    offsets.lines().filter_map(clock).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files and links.
    fn root(files: &[(&str, &str)], links: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let below = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        files.iter().for_each(|(path, text)| fs::write(below(path), text).unwrap());
        let link = |(path, target): &(&str, &str)| std::os::unix::fs::symlink(target, below(path));
        links.iter().for_each(|pair| link(pair).unwrap());
        root
    }

    const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

    #[test]
    fn a_recorded_host_is_read() {
        let current = format!("{CLOCKSOURCE}/current_clocksource");
        let available = format!("{CLOCKSOURCE}/available_clocksource");
        let files = [
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Some CPU @ 2.50GHz\nflags\t\t: fpu hypervisor\n",
            ),
            ("sys/devices/system/cpu/online", "0-1,4-7\n"),
            ("sys/devices/system/cpu/cpu0/tsc_freq_khz", "2500000\n"),
            (current.as_str(), "hpet\n"),
            (available.as_str(), "hpet acpi_pm \n"),
            ("proc/loadavg", "1.25 0.80 0.50 2/300 4242\n"),
            ("proc/self/status", "Name:\tcat\nTracerPid:\t17\nSeccomp:\t2\nSeccomp_filters:\t1\n"),
            (
                "proc/self/timens_offsets",
                "monotonic      86400         0\nboottime    -3 500000000\n",
            ),
            ("proc/cmdline", "ro quiet clocksource=hpet\n"),
        ];
        let links = [
            ("proc/self/ns/time", "time:[4026532222]"),
            ("proc/self/ns/time_for_children", "time:[4026532222]"),
        ];
        let root = root(&files, &links);
        let state = from_files(root.path());
        assert_eq!(state.cpu_model.as_deref(), Some("Some CPU @ 2.50GHz"));
        assert_eq!(state.cpus_online, 6);
        assert_eq!(state.clocksource.as_deref(), Some("hpet"));
        assert_eq!(state.clocksources_available, ["hpet", "acpi_pm"]);
        assert_eq!(state.tsc_hz_kernel, Some(2.5e9));
        assert_eq!(state.load, Some(1.25));
        assert_eq!(state.seccomp.as_deref(), Some("filter"));
        assert_eq!(state.traced_by, Some(17));
        assert_eq!(state.time_namespace.as_deref(), Some("monotonic +86400 s, boottime -3.5 s"));
        assert_eq!(state.command_line.as_deref(), Some("ro quiet clocksource=hpet"));
        assert!(signs_of_virtualisation(root.path(), "6.1.0").flag);
    }

    #[test]
    fn nothing_is_made_up_about_an_empty_root() {
        let root = root(&[], &[]);
        assert_eq!(from_files(root.path()), HostState::default());
        assert_eq!(signs_of_virtualisation(root.path(), ""), Signs::default());
    }

    #[test]
    fn the_initial_time_namespace_is_none() {
        let root = root(&[], &[("proc/self/ns/time", INITIAL_TIME_NAMESPACE)]);
        assert_eq!(from_files(root.path()).time_namespace.as_deref(), Some("none"));
        let own = from_files(Path::new("/")).time_namespace;
        assert!(own.is_some() || !Path::new("/proc/self/ns/time").exists());
    }

    #[test]
    fn a_cpu_without_a_name_has_a_part() {
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("implementer 0x41, part 0xd0c"));
        assert_eq!(cpu_model("processor : 0\n"), None);
    }
}
