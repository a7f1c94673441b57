//! The proofs in `proofs/` match this code: they use the same constants, and their functions give
//! the same results.

use std::format;
use std::fs;
use std::path::Path;
use std::string::String;

use super::*;
use crate::page::content::{LATEST, LONGEST, SLOWEST, VAGUEST};
use crate::page::reader::steepness;

fn proof(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proofs").join(name);
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_constants_of_the_proofs_are_those_of_the_code() {
    let text = proof("conversion.smt2");
    let latest = LATEST.unsigned_abs();
    for (name, value) in
        [("LONGEST", LONGEST), ("VAGUEST", VAGUEST), ("SLOWEST", SLOWEST), ("LATEST", latest)]
    {
        let line = format!("(define-fun {name} () Int {value})");
        assert!(text.contains(&line), "{line}");
    }
}

/// Writes results of the Rust functions in the language of the proofs. `make prove` lets a solver
/// compare them with the functions there: FASTCLOCK_SAMPLES names the output file.
#[test]
fn samples_are_written_for_the_solvers() {
    let text = proof("conversion.smt2");
    let (definitions, _) = text.split_once("; A content that is_sound()").unwrap();
    let mut samples = String::from(definitions);
    let mut compare = |term: String, value: u64| {
        samples += &format!("(assert-not-equal {term} {value})\n");
    };
    let numbers = [0, 1, 77, (1 << 32) - 1, 1 << 32, 0x9e37_79b9_7f4a_7c15, u64::MAX];
    for fraction in numbers {
        for ticks in numbers.map(|ticks| ticks >> 12) {
            let tick = TickLength { whole: 3, fraction };
            compare(format!("(nanos 3 {fraction} {ticks})"), tick.nanos(ticks));
            let [at_base, growth] = [5, fraction >> 16];
            let bound = Bound { at_base, growth };
            compare(format!("(after {at_base} {growth} {ticks})"), bound.after(ticks));
            compare(format!("(steepness {fraction})"), steepness(fraction));
            let [from, low] = [ticks & 0xffff_ffff, (ticks & 0xffff_ffff) + 12_345];
            let line = Steep::through(from, ticks, fraction);
            compare(format!("(steep {from} {ticks} {fraction} {low})"), line.at(low));
        }
    }
    assert!(samples.matches("assert-not-equal").count() > 100);
    if let Some(path) = std::env::var_os("FASTCLOCK_SAMPLES") {
        let any = samples.replace("(assert-not-equal", "(not (=").replace(")\n(not", "))\n(not");
        let (definitions, terms) = any.split_once("(not (=").unwrap();
        let terms = terms.trim_end();
        let echo = "(echo \"the functions here are those of the code\")";
        let asked = format!("{echo}\n(assert (or (not (={terms})))\n(check-sat)\n");
        fs::write(path, format!("{definitions}{asked}")).unwrap();
    }
}

/// A bound and its growth that are each below the limit, but not together. A reader once gave a far
/// too small bound for such a content (a counterexample that the solvers found).
#[test]
fn a_bound_is_never_less_than_it_was_said_to_be() {
    let (page, trust, machine) = (Page::new(), Trust::new(), Machine::new());
    machine.step.set(0);
    // The bound grows to just below the limit by the line's end.
    let span = 4_000_000_000;
    let growth = u64::try_from((u128::from(VAGUEST << 32) << 32) / u128::from(span) - 1).unwrap();
    let content = Content {
        bound: Bound { at_base: VAGUEST - 1, growth },
        ..machine.content(machine.now(), 0, span)
    };
    Writer::create(&page, [0; 2], 1).publish(content);
    let reader = reader(&page, &trust, &machine);
    let first = mono(&reader);
    machine.pass(span - 1);
    let last = mono(&reader);
    for answer in [first, last] {
        let whole = answer.bound.0 >= i64::try_from(VAGUEST).unwrap() - 1;
        assert!(answer.declined.is_some() || whole, "{answer:?}");
    }
}
