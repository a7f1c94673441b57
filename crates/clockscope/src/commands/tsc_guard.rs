//! Checks the TSC for use as a clock, and explains a refusal with doctor's rules.

use anyhow::bail;
use fastclock::Decline;

use clock_doctor::rules;
use clock_doctor::rules::advice::tsc_guards;
use clockscope_measure::live;
use clockscope_model::trace::CounterReads;
use clockscope_timekeeper::guards::{self, Refusal};

/// Checks whether this machine's counter may be used.
///
/// # Errors
///
/// The reason for the refusal, with a remedy.
pub fn ask(force: bool) -> anyhow::Result<()> {
    match guards::check(force) {
        Ok(_) => Ok(()),
        Err(refusal) => bail!("--clock tsc: {}", explained(&refusal)),
    }
}

/// The refusal in one line, with a remedy. If only the kernel's verdict speaks against the TSC, this also
/// applies doctor's rules, which takes about a second.
pub fn explained(refusal: &Refusal) -> String {
    let advice = (refusal.can_be_forced).then(|| {
        let facts = live::facts();
        tsc_guards(&facts, &rules::examine(&facts).findings)
    });
    told(refusal, advice)
}

/// Why programs that read the CPU's counter themselves may measure wrongly, by doctor's rules, as a clause; `None` if
/// none of the files is such a program's, nothing is known against the counter, or the kernel itself uses it.
pub fn counter_doubt(files: &[CounterReads]) -> Option<String> {
    if files.iter().all(|file| file.of_system) || guards::kernel_uses_the_counter() {
        return None;
    }
    let facts = live::facts();
    tsc_guards(&facts, &rules::examine(&facts).findings).err()
}

/// The line; `doctor` is the result of doctor's rules about the TSC, if they were applied.
fn told(refusal: &Refusal, doctor: Option<Result<(), String>>) -> String {
    let advice = match doctor {
        Some(Ok(())) => "nothing else that is known speaks against the TSC here: --force uses it",
        Some(Err(why)) => &format!(
            "doctor speaks against it too: {why}; try clockscope doctor, and --force at your own risk"
        ),
        None if refusal.reason == Decline::Forbidden => "try without PR_SET_TSC",
        None => "--force does not override this; try clockscope doctor",
    };
    format!("the TSC is refused: {refusal}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: Decline, can_be_forced: bool) -> Refusal {
        Refusal {
            reason,
            against: vec!["the kernel's clocksource is hpet, not the counter".to_owned()],
            in_favour: vec!["no warp in 9 hand-overs".to_owned()],
            can_be_forced,
        }
    }

    #[test]
    fn the_way_out_depends_on_what_doctor_knows() {
        let forcible = refusal(Decline::Clocksource, true);
        assert_eq!(
            told(&forcible, Some(Ok(()))),
            "the TSC is refused: the kernel's clocksource is hpet, not the counter (for it: no warp \
             in 9 hand-overs); nothing else that is known speaks against the TSC here: --force uses it"
        );
        let bad = told(&forcible, Some(Err("the TSC halts in idle".to_owned())));
        assert!(bad.contains("doctor speaks against it too: the TSC halts in idle"), "{bad}");
        assert!(told(&refusal(Decline::Warp, false), None).contains("does not override"));
        assert!(told(&refusal(Decline::Forbidden, false), None).contains("PR_SET_TSC"));
    }
}
