//! The machine, as a table.

use clock_doctor::state::{HostState, SyscallTracing, VdsoState};

use super::super::chart::quantity::digits;
use super::{Page, Table, Tone};

impl Page {
    /// Warns of what makes the numbers of this host doubtful.
    pub(crate) fn warn_of_host(&mut self, host: &HostState) {
        let mut doubts = Vec::new();
        if host.syscall_tracing.active == Some(true) {
            doubts.push(format!(
                "System calls are being traced on this host ({}): each costs more than it does \
                 otherwise, for every process; what the vDSO answers does not.",
                listed(&host.syscall_tracing.who)
            ));
        }
        if host.vdso.falls_back == Some(true) {
            doubts.push(
                "The vDSO of this machine does not answer CLOCK_MONOTONIC: it makes a system call \
                 itself."
                    .to_owned(),
            );
        }
        if let Some(pid) = host.traced_by {
            doubts.push(format!("Process {pid} traced this measurement by ptrace."));
        }
        self.say(Tone::Warning, "Beware", &doubts);
    }

    /// The state that decides the numbers.
    pub(crate) fn host_facts(&mut self, host: &HostState) {
        let mut table = Table::new("What decides the numbers", &["fact", "value"]).words(&[1]);
        let mut fact = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                table.row(vec![name.to_owned(), value]);
            }
        };
        fact("date", Some(host.date.clone()));
        fact("CPU", host.cpu_model.clone());
        fact("CPUs online", (host.cpus_online > 0).then(|| host.cpus_online.to_string()));
        fact("kernel", Some(format!("{} {}", host.kernel, host.arch).trim().to_owned()));
        fact("virtualisation", host.virtualisation.clone());
        fact("clocksource", host.clocksource.as_ref().map(|source| clocksource(host, source)));
        fact("HZ", host.hz.map(|hz| hz.to_string()));
        fact("TSC by the kernel", host.tsc_hz_kernel.map(|hz| from(host, &megahertz(hz))));
        fact("TSC measured", host.tsc_hz_measured.map(|hz| measured(host, hz)));
        fact("vDSO", Some(vdso(&host.vdso)));
        fact("load average", host.load.map(digits));
        fact("seccomp", host.seccomp.clone());
        fact("time namespace", host.time_namespace.clone());
        fact("tracing of system calls", Some(tracing(&host.syscall_tracing)));
        fact("kernel command line", host.command_line.clone());
        fact("clockscope", Some(host.clockscope.clone()));
        self.table(&table);
    }
}

fn listed(who: &[String]) -> String {
    if who.is_empty() { "by whom is not known".to_owned() } else { who.join("; ") }
}

fn clocksource(host: &HostState, current: &str) -> String {
    let others = host.clocksources_available.iter().filter(|other| *other != current);
    let others: Vec<&str> = others.map(String::as_str).collect();
    if others.is_empty() {
        current.to_owned()
    } else {
        format!("{current} (available too: {})", others.join(", "))
    }
}

fn megahertz(hz: f64) -> String {
    if hz.is_finite() { format!("{:.3} MHz", hz / 1e6) } else { "?".to_owned() }
}

fn from(host: &HostState, rate: &str) -> String {
    match &host.tsc_hz_source {
        Some(source) => format!("{rate} ({source})"),
        None => rate.to_owned(),
    }
}

fn measured(host: &HostState, hz: f64) -> String {
    match host.tsc_bound_ppm {
        Some(bound) => format!("{} \u{b1} {} ppm", megahertz(hz), digits(bound)),
        None => megahertz(hz),
    }
}

fn vdso(state: &VdsoState) -> String {
    let ratio = |text: &str| match state.ratio {
        Some(ratio) => format!("{text}; by syscall(2) it costs {} times as much", digits(ratio)),
        None => text.to_owned(),
    };
    match (state.present, state.falls_back) {
        (false, _) => "none".to_owned(),
        (true, Some(true)) => ratio("falls back to a system call"),
        (true, Some(false)) => ratio("answers CLOCK_MONOTONIC"),
        (true, None) => "there".to_owned(),
    }
}

fn tracing(state: &SyscallTracing) -> String {
    let mut text = match state.active {
        Some(true) => format!("yes: {}", listed(&state.who)),
        Some(false) => "nobody".to_owned(),
        None => "not known".to_owned(),
    };
    if let Some(note) = &state.note {
        text.push_str(" (");
        text.push_str(note);
        text.push(')');
    }
    text
}
