//! Hand-made diagnoses, to test the text without the rules.

use crate::facts::{CommandLine, Evidence, Facts, Kernel, Known, Unread};
use crate::report::model::DoctorReport;
use crate::rules::catalogue::{Fix, Label};
use crate::rules::finding::{Advice, Cost, Diagnosis, Finding, Severity, State, Verdict};

fn at(line: u64, text: &str) -> Evidence {
    Evidence { line: Some(line), ..Evidence::of("var/log/dmesg", text) }
}

fn facts(release: &str) -> Facts {
    let kernel = Kernel::parse(release).unwrap();
    let file = "proc/sys/kernel/osrelease";
    Facts {
        kernel: Some(Known::new(kernel, file, release)),
        command_line: Some(Known::new(CommandLine::parse("ro quiet"), "proc/cmdline", "ro quiet")),
        read: vec![file.to_owned(), "var/log/dmesg".to_owned()],
        ..Facts::default()
    }
}

fn verdict(state: State, source: Option<&str>, cost: Option<(f64, f64, bool)>) -> Verdict {
    let cost = cost.map(|(low_ns, high_ns, is_measured)| Cost { low_ns, high_ns, is_measured });
    Verdict {
        state,
        because: source
            .map(|_| "of what it is")
            .unwrap_or("nothing names the clocksource")
            .to_owned(),
        source: source.map(str::to_owned),
        cost,
        ..Verdict::default()
    }
}

fn diagnosis(verdict: Verdict, findings: Vec<Finding>) -> Diagnosis {
    Diagnosis { verdict, findings, ..Diagnosis::default() }
}

fn advice(fix: Fix, title: &str, place: &str) -> Advice {
    Advice {
        name: fix.to_string(),
        title: title.to_owned(),
        place: place.to_owned(),
        verify: vec![
            "cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # expect tsc"
                .to_owned(),
        ],
        ..Advice::default()
    }
}

/// A VirtualBox guest with CPUs that disagreed at boot.
pub(in crate::report) fn warp() -> DoctorReport {
    let warped = at(3, "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.");
    let marked = at(4, "Marking TSC unstable due to check_tsc_sync_source failed");
    let available = Evidence::of(
        "sys/devices/system/clocksource/clocksource0/available_clocksource",
        "acpi_pm",
    );
    let findings = vec![
        Finding::new(Label::TscWarp)
            .detail(
                "One CPU read a count 66930 cycles lower than another CPU had read just before.",
            )
            .detail("The hypervisor gave the virtual CPUs counters that do not agree.")
            .seen(&warped)
            .seen(&marked),
        Finding::new(Label::TscAbsent).seen(&available).seen(&marked).follows(Label::TscWarp),
        Finding::new(Label::MissingNonstopTsc).severity(Severity::Note).follows(Label::TscAbsent),
        Finding::new(Label::OldKernel)
            .detail("Linux 3.2 applies tsc=reliable to the watchdog only."),
        Finding::new(Label::CalibrationNoteBenign),
    ];
    let verdict = Verdict {
        platforms: vec!["virtualbox"],
        ..verdict(State::Slow, Some("acpi_pm"), Some((700.0, 2_600.0, false)))
    };
    let provider = Advice {
        why: "The guest then reads KVM's clock, which does not depend on equal counters."
            .to_owned(),
        commands: vec![
            "VBoxManage controlvm NAME acpipowerbutton".to_owned(),
            "VBoxManage modifyvm NAME --paravirtprovider kvm".to_owned(),
        ],
        caveats: vec!["VirtualBox 5.0 and later have it.".to_owned()],
        ..advice(Fix::ParavirtproviderKvm, "give the guest KVM's clock", "on the host")
    };
    let fewer = Advice {
        commands: vec!["VBoxManage modifyvm NAME --cpus 1".to_owned()],
        ..advice(Fix::FewerVcpus, "give the guest fewer CPUs", "on the host")
    };
    let diagnosis = Diagnosis {
        advice: vec![provider, fewer],
        never: vec!["tsc=reliable alone: this kernel ignores it for the comparison at boot.".to_owned()],
        meanwhile: vec!["Programs that can do with a tick's precision: clockscope run --clock coarse -- PROGRAM".to_owned()],
        ..diagnosis(verdict, findings)
    };
    DoctorReport::new(&facts("3.2.0-4-amd64"), &diagnosis)
}

/// A healthy machine, measured.
pub(in crate::report) fn healthy() -> DoctorReport {
    let verdict = verdict(State::Fast, Some("tsc"), Some((22.0, 22.0, true)));
    let findings = vec![Finding::new(Label::EarlySwitchBenign)];
    DoctorReport::new(&facts("6.12.0-1-amd64"), &diagnosis(verdict, findings))
}

/// A root without any facts.
pub(in crate::report) fn nothing() -> DoctorReport {
    let missing = vec!["the current clocksource: cat /sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned()];
    let unread = vec![Unread::new("var/log/kern.log", "permission denied")];
    let diagnosis =
        Diagnosis { missing, ..diagnosis(verdict(State::Unknown, None, None), Vec::new()) };
    DoctorReport::new(&Facts { unread, ..Facts::default() }, &diagnosis)
}

/// Fast, and the time may be wrong; names of the machine contain control characters.
pub(in crate::report) fn wrong() -> DoctorReport {
    let verdict = verdict(State::Fast, Some("tsc\u{1b}[2J"), Some((18.0, 57.0, false)));
    let findings = vec![
        Finding::new(Label::TscRateWrong)
            .detail("The timer says 3599.997 MHz where the kernel had taken 3600.9 MHz.")
            .seen(&at(7, "tsc: Warning: TSC freq calibrated by CPUID/MSR differs\u{1b}[31m")),
    ];
    DoctorReport::new(&facts("6.5.0"), &diagnosis(verdict, findings))
}
