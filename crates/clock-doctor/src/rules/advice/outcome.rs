//! The clocksource that the kernel selects at its next boot, which a fix may promise.

use super::case::Case;
use super::{CURRENT, fixes};
use crate::rules::{Event, EventKind, Fix, UnstableReason, gives_tsc_up, is_tsc};

/// Clocks of hypervisors, rated above or below tsc.
const CLOCKS: [&str; 3] = ["kvm-clock", "xen", "hyperv_clocksource_tsc_page"];

impl<'a> Case<'a> {
    /// The clocksources that may be current after that fix and a boot, provided that the kernel does not refuse the
    /// TSC. Empty if there is no TSC, or no own kernel.
    pub(super) fn after_boot(&self, fix: Fix) -> Vec<&'a str> {
        if self.is("arm64 arm32 riscv64 gvisor") {
            return Vec::new();
        }
        let taken_off = |word: &str| fix == Fix::RemoveParameter && fixes::unwanted(self, word);
        let line = self.facts.command_line.iter().flat_map(|line| &line.value.words);
        let mut words: Vec<&str> = line.map(String::as_str).collect();
        const OFF: [&str; 2] = ["no-kvmclock", "nopv"];
        let was_off = words.iter().any(|word| OFF.contains(word)) && self.is("kvm");
        words.retain(|word| !taken_off(word));
        words.extend((fix == Fix::ClocksourceTsc).then_some("clocksource=tsc"));
        words.extend((fix == Fix::NoKvmclock).then_some("no-kvmclock"));
        let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
        let refused = has(&["notsc", "tsc=unstable"]) || self.may_never_use_tsc();
        match words.iter().rev().find_map(|word| word.strip_prefix("clocksource=")) {
            Some(name) if is_tsc(name) && !refused => return vec![name],
            Some(name) if self.facts.lists(name) != Some(false) && !is_tsc(name) => {
                return vec![name];
            }
            _ => {}
        }
        let gives = matches!(fix, Fix::KvmClock | Fix::ParavirtproviderKvm);
        let has_clock = |name: &&str| match *name {
            "kvm-clock" if has(&OFF) => false,
            "kvm-clock" => gives || was_off || self.has_clock(name),
            _ => self.has_clock(name),
        };
        let Some(clock) = CLOCKS.into_iter().find(has_clock) else {
            return if refused { Vec::new() } else { vec!["tsc"] };
        };
        let is_above = self.is_above(clock, fix);
        let tsc = (is_above != Some(true) && !refused).then_some("tsc");
        let other = (is_above != Some(false) || refused || gives).then_some(clock);
        tsc.into_iter().chain(other).collect()
    }

    /// Whether the kernel will refuse the TSC of such a CPU too, sooner or later.
    pub(super) fn may_never_use_tsc(&self) -> bool {
        self.doubt().is_some_and(|doubt| !doubt.may_use)
    }

    fn has_clock(&self, name: &str) -> bool {
        let tells = |kind: &EventKind| {
            kind.clocksources().any(|one| one == name)
                || *kind == EventKind::KvmClock && name == "kvm-clock"
        };
        self.verdict.source.as_deref() == Some(name)
            || self.facts.lists(name) == Some(true)
            || self.facts.logged(tells).is_some()
    }

    /// Whether the kernel rates that clock above tsc; `None` if unknown.
    fn is_above(&self, name: &str, fix: Fix) -> Option<bool> {
        let changes = [Fix::Invtsc, Fix::KvmClock, Fix::ParavirtproviderKvm].contains(&fix);
        self.seen_above(name).filter(|_| !changes).or_else(|| match name {
            "kvm-clock" => self.kvm_clock_is_above(fix == Fix::Invtsc),
            // 299 if the TSC is safe: not in 6.1, but in 6.12.
            "xen" => (self.kernel_since(6, 2, None) == Some(false)).then_some(true),
            // 400 in 4.x; later 250 if the host offers an invariant TSC. Red Hat's 8 has the later rating.
            _ => {
                use EventKind::{HyperVNoInvariantTsc, Unstable};
                use UnstableReason::HyperV;
                let refuses =
                    |it: &_| matches!(it, HyperVNoInvariantTsc | Unstable { reason: HyperV, .. });
                let is_refused = fix != Fix::Invtsc && self.facts.logged(refuses).is_some();
                let is_old = self.kernel_since(5, 0, Some(8)) == Some(false);
                (is_old || is_refused).then_some(true)
            }
        })
    }

    /// From the kernel's own behaviour: its list is ordered by rating, and a clock that was current when the TSC was
    /// given up has a higher rating.
    fn seen_above(&self, name: &str) -> Option<bool> {
        let list = self.facts.available.iter().flat_map(|list| &list.value);
        let mut both = list.filter(|one| *one == "tsc" || *one == name);
        if let (Some(first), Some(_)) = (both.next(), both.next()) {
            return Some(first == name);
        }
        let lost = self.facts.events().position(gives_tsc_up)?;
        let switches = |event: &Event| matches!(event.kind, EventKind::Switched(_));
        let after = self.facts.events().skip(lost).position(switches).unwrap_or(usize::MAX / 2);
        let says = |event: &Event| match &event.kind {
            EventKind::Current { name: Some(one), is_other: true } => (one == name).then_some(true),
            EventKind::Switched(one) if one == "tsc" || one == name => Some(one == name),
            _ => None,
        };
        self.facts.events().take(lost + after).filter_map(says).last()
    }

    /// 400; from 5.1 on 299 if the CPU reports an invariant TSC (7539b174aef4). Red Hat's 8 may have that.
    fn kvm_clock_is_above(&self, gets_invtsc: bool) -> Option<bool> {
        let flags = ["constant_tsc", "nonstop_tsc"].map(|name| self.facts.cpu.flag(name));
        let is_invariant = gets_invtsc || flags == [Some(true); 2];
        let lacks = !is_invariant && flags.contains(&Some(false));
        if lacks || self.kernel_since(5, 1, Some(8)) == Some(false) {
            return Some(true);
        }
        (is_invariant && self.kernel_since(5, 1, None) == Some(true)).then_some(false)
    }

    /// Commands that show the current clocksource, and whether it is fast if it must be.
    pub(super) fn verify_source(&self, expected: &[&str]) -> Vec<String> {
        let source = format!("cat {CURRENT}   # must print {}", expected.join(", or "));
        let state = "clockscope doctor   # must say: fast".to_owned();
        if self.is_fast(expected) { vec![source, state] } else { vec![source] }
    }

    /// Whether the vDSO reads each of them.
    pub(super) fn is_fast(&self, names: &[&str]) -> bool {
        let is_fast = |name: &&str| match *name {
            "tsc" => true,
            "kvm-clock" => self.kernel_since(3, 8, Some(7)) != Some(false),
            "hyperv_clocksource_tsc_page" => self.kernel_since(4, 12, Some(8)) != Some(false),
            _ => false,
        };
        names.iter().all(is_fast)
    }

    /// [`Case::verify_source`] after a boot, with the log line that would show a failure.
    pub(super) fn verify_boot(&self, parameter: &str) -> Vec<String> {
        let mut commands = vec![format!("cat /proc/cmdline   # must have {parameter}")];
        commands.extend(self.verify_source(self.next));
        commands.push(
            "sudo dmesg | grep -i 'tsc.*unstable'   # must print nothing; else it names the reason"
                .to_owned(),
        );
        commands
    }
}
