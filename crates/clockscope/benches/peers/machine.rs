//! What the machine is, for the head of the page.

use std::fs::read_to_string;
use std::process::Command;

/// Facts that a reader needs to judge the figures.
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    facts: Vec<(&'static str, String)>,
}

impl Machine {
    /// Reads the facts of this machine.
    pub(crate) fn observe() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let facts = vec![
            ("date", date()),
            ("CPU", format!("{cpus} x {}", cpu_model())),
            ("hypervisor", hypervisor()),
            ("kernel", file("/proc/sys/kernel/osrelease")),
            ("clocksource", file(CLOCKSOURCE)),
            ("load before", file("/proc/loadavg")),
            ("system", system_name()),
        ];
        Self { cpus, facts }
    }

    /// One row a fact.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.facts.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect()
    }
}

/// When, where, under what load and by what command: for a section that can be measured alone.
pub(crate) fn measured_by(section: &str) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = file("/proc/sys/kernel/osrelease");
    let kernel = kernel.split('-').next().unwrap_or_default();
    format!(
        "`make bench SECTIONS={section}`: {}; {cpus} x {}, Linux {kernel}, clocksource {}; load {}.",
        date(),
        cpu_model(),
        file(CLOCKSOURCE),
        load()
    )
}

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The date and the time of day now.
pub(crate) fn date() -> String {
    output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
}

/// The load now, as /proc/loadavg has it.
pub(crate) fn load() -> String {
    file("/proc/loadavg")
}

/// The first line of what a program prints, or `unknown`.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn file(path: &str) -> String {
    read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn cpu_model() -> String {
    value_after("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned())
}

fn hypervisor() -> String {
    let flags = value_after("/proc/cpuinfo", "flags").unwrap_or_default();
    let virtual_machine = flags.split_whitespace().any(|flag| flag == "hypervisor");
    if virtual_machine { "yes".to_owned() } else { "no".to_owned() }
}

fn system_name() -> String {
    let text = read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned())
}

fn value_after(path: &str, key: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}
