//! Which clocksource the kernel takes at its next boot: what a fix may promise.

use super::Case;
use crate::facts::Sign;
use crate::log::event::{Kind, UnstableReason};
use crate::rules::hosts;
use crate::rules::state::source::{gives_tsc_up, is_tsc};

/// What a fix changes before that boot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change<'a> {
    /// Words that it adds to the command line.
    pub(super) adds: &'a str,
    /// Words that it takes off.
    pub(super) removes: &'a [&'a str],
    /// The guest gets kvm-clock.
    pub(super) gives_kvm_clock: bool,
    /// The guest's CPU states constant_tsc and nonstop_tsc.
    pub(super) gives_invtsc: bool,
}

/// A paravirtual clock beside tsc, whose rating is 300.
enum Rating {
    Above,
    Below,
    Unknown,
}

const PAGE: &str = "hyperv_clocksource_tsc_page";

impl Case<'_> {
    /// The clocksources of which one is current after the next boot, the likeliest first, provided that the kernel does
    /// not refuse the TSC. Empty if nothing here tells.
    pub(super) fn after_boot(&self, change: Change) -> Vec<String> {
        // No TSC, or no kernel of its own.
        if self.is(&["arm64", "arm32", "riscv64", "gvisor"]) {
            return Vec::new();
        }
        let line = self.facts.command_line.iter().flat_map(|line| &line.value.words);
        let kept = line.map(String::as_str).filter(|word| !change.removes.contains(word));
        let words: Vec<&str> = kept.chain(change.adds.split_whitespace()).collect();
        let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
        let refused = has(&["notsc", "tsc=unstable"]);
        let asked = words.iter().rev().find_map(|word| word.strip_prefix("clocksource="));
        if let Some(name) =
            asked.filter(|name| self.is_available(name) != Some(false) || is_tsc(name))
        {
            return if is_tsc(name) && refused { Vec::new() } else { vec![name.to_owned()] };
        }
        let off = has(&["no-kvmclock", "nopv"]);
        let Some((name, rating)) = self.paravirtual(change, off) else {
            return if refused { Vec::new() } else { vec!["tsc".to_owned()] };
        };
        let names: &[&str] = match rating {
            Rating::Above => &[name],
            _ if refused => &[name],
            Rating::Below => &["tsc"],
            Rating::Unknown => &["tsc", name],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// The same, if tsc is among them: for a fix that aims at the TSC.
    pub(super) fn tsc_after_boot(&self, change: Change) -> Option<Vec<String>> {
        Some(self.after_boot(change)).filter(|names| names.iter().any(|name| name == "tsc"))
    }

    fn paravirtual(&self, change: Change, off: bool) -> Option<(&'static str, Rating)> {
        let seen = |name: &str| {
            let listed =
                self.facts.available.iter().any(|list| list.value.iter().any(|one| one == name));
            listed
                || self.verdict.source.as_deref() == Some(name)
                || self.facts.events().any(|event| event.kind.clocksources().any(|one| one == name))
        };
        let kvm = change.gives_kvm_clock || hosts::kvm_clock_evidence(self.facts).is_some();
        if kvm && !off {
            return Some((
                "kvm-clock",
                self.seen_rating("kvm-clock").unwrap_or_else(|| self.kvm_clock(change)),
            ));
        }
        if seen("xen") && !off {
            let control = |sign: &Sign| matches!(sign, Sign::XenCapabilities(text) if text.contains("control_d"));
            let is_dom0 = self.facts.signs.iter().any(|sign| control(&sign.value));
            // 275 in dom0 from 4.4 on, 299 elsewhere where the TSC is safe from 6.2 on at the earliest.
            let usual = match self.kernel_since(6, 2, None) {
                Some(false) if !is_dom0 => Rating::Above,
                _ => Rating::Unknown,
            };
            return Some(("xen", self.seen_rating("xen").unwrap_or(usual)));
        }
        let refuses = |kind: &Kind| {
            matches!(
                kind,
                Kind::HyperVNoInvariantTsc | Kind::Unstable { reason: UnstableReason::HyperV, .. }
            )
        };
        let usual = || match self.facts.events().any(|event| refuses(&event.kind)) {
            true => Rating::Above,
            false => Rating::Unknown,
        };
        seen(PAGE).then(|| (PAGE, self.seen_rating(PAGE).unwrap_or_else(usual)))
    }

    /// By what the kernel itself did: its list is in the order of the ratings, and what was current when the watchdog gave
    /// the TSC up outranked it.
    fn seen_rating(&self, name: &str) -> Option<Rating> {
        let place = |wanted: &str| {
            self.facts.available.as_ref()?.value.iter().position(|one| one == wanted)
        };
        if let (Some(tsc), Some(other)) = (place("tsc"), place(name)) {
            return Some(if tsc < other { Rating::Below } else { Rating::Above });
        }
        let lost = self.facts.events().position(gives_tsc_up)?;
        let was_current = |kind: &Kind| matches!(kind, Kind::Current { name: Some(one), is_other: true } if one == name);
        if self.facts.events().any(|event| was_current(&event.kind)) {
            return Some(Rating::Above);
        }
        let before: Vec<_> = self.facts.events().take(lost).collect();
        before.iter().rev().find_map(|event| match &event.kind {
            Kind::Switched(one) if one == name => Some(Rating::Above),
            Kind::Switched(one) if one == "tsc" => Some(Rating::Below),
            _ => None,
        })
    }

    /// 400; from 5.1 on 299 where the CPU states an invariant TSC (7539b174aef4). Red Hat's 8 may have that.
    fn kvm_clock(&self, change: Change) -> Rating {
        let flags = ["constant_tsc", "nonstop_tsc"].map(|name| self.facts.cpu.flag(name));
        let is_invariant = match flags {
            _ if change.gives_invtsc => Some(true),
            [Some(true), Some(true)] => Some(true),
            [Some(false), _] | [_, Some(false)] => Some(false),
            _ => None,
        };
        match (self.kernel_since(5, 1, None), self.kernel_since(5, 1, Some(8)), is_invariant) {
            (Some(false), Some(false), _) | (_, _, Some(false)) => Rating::Above,
            (Some(true), _, Some(true)) => Rating::Below,
            _ => Rating::Unknown,
        }
    }

    /// Commands that show which clocksource is current, and whether it is fast where it must be.
    pub(super) fn verify_source(&self, expected: &[String]) -> Vec<String> {
        let source = format!("cat {}   # must print {}", super::CURRENT, expected.join(", or "));
        let is_fast = |name: &String| match name.as_str() {
            "tsc" => true,
            // The vDSO reads it from 3.8 on, and Hyper-V's page from 4.12 on.
            "kvm-clock" => self.kernel_since(3, 8, Some(7)) != Some(false),
            PAGE => self.kernel_since(4, 12, Some(8)) != Some(false),
            _ => false,
        };
        let fast = "clockscope doctor   # must say: fast".to_owned();
        match expected.iter().all(is_fast) {
            true => vec![source, fast],
            false => vec![source],
        }
    }

    /// The same after a boot with other words on the command line.
    pub(super) fn verify_boot(&self, parameter: &str, expected: &[String]) -> Vec<String> {
        let mut commands = vec![format!("cat /proc/cmdline   # must have {parameter}")];
        commands.extend(self.verify_source(expected));
        commands.push(
            "sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason"
                .to_owned(),
        );
        commands
    }
}
