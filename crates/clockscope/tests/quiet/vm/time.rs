//! A machine that is stopped while its RTC goes on.

use std::collections::BTreeSet;

use super::machine::{Boot, boot};
use super::{assert_has, labels};

fn of_step(boot: &Boot, name: &str) -> BTreeSet<String> {
    labels(&boot.json(&format!("doctor-{name}.out")))
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_machine_that_stood_still_is_found_to_be_behind_by_as_much_as_its_rtc_shows() {
    let Some(boot) = boot("time") else { return };
    let ahead: f64 = boot.text("ahead").trim().parse().expect("seconds");
    assert!(ahead >= 50.0, "the machine was not stopped: {ahead} s");
    let wanted = ["time-behind-host", "fix:set-clock-after-restore"];
    assert_has(&boot, &of_step(&boot, "stopped"), &wanted);
    assert_eq!(boot.status("doctor-stopped"), 2);
    let time = boot.json("doctor-stopped.out")["time"].clone();
    let [behind, error] =
        ["behind_ns", "error_ns"].map(|key| time[key].as_f64().expect("nanoseconds") / 1e9);
    // Both are whole seconds, and the RTC's count from any part of one.
    assert!((behind - ahead).abs() <= 2.0 && error <= 1.0, "{time:#}, {ahead} s");
    for step in ["wide-stopped", "quiet-stopped"] {
        assert_eq!(boot.status(step), 2);
        let said = boot.text(&format!("{step}.out"));
        assert!(said.starts_with("the time is not within 5 s: "), "{step}");
    }
    assert!(boot.text("text.out").contains(", but the time is "), "{}", boot.text("text.out"));
    assert!(boot.text("nagios.out").contains("[time-behind-host]"), "{}", boot.text("nagios.out"));
    assert!(
        boot.text("metrics.out").contains("clockscope_time_behind_seconds{reference=\"rtc0\"} ")
    );
    // The advice was followed.
    assert!(boot.text("text.out").contains("sudo hwclock --hctosys --utc"));
    boot.assert_succeeded("again");
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_machine_whose_time_is_right_is_proved_so_within_what_its_rtc_shows() {
    let Some(boot) = boot("time") else { return };
    boot.assert_succeeded("wide-healthy");
    assert!(boot.text("wide-healthy.out").starts_with("the time is within 5 s: the clock is "));
    boot.assert_succeeded("quiet-healthy");
    assert_eq!(boot.text("quiet-healthy.out"), "");
    assert_ne!(boot.status("narrow-healthy"), 0, "no RTC proves a millisecond");
    let labels = of_step(&boot, "healthy");
    for wrong in ["time-behind-host", "reference-disagrees"] {
        assert!(!labels.contains(wrong), "{labels:?}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-vm"]
fn a_machine_without_another_clock_says_so() {
    let Some(boot) = boot("time") else { return };
    assert_eq!(boot.text("left"), "", "the RTC is gone");
    for step in ["wide-alone", "narrow-alone", "quiet-alone"] {
        assert_eq!(boot.status(step), 3);
        assert!(boot.text(&format!("{step}.out")).contains("there is no clock to compare with"));
    }
    assert_has(&boot, &of_step(&boot, "alone"), &["time-not-synchronised"]);
}
