//! The processes as a tree: who made whom, and who makes the calls.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::answers::ratio;
use super::super::entries::{Calls, were_timed};
use super::super::page::{Branch, Page};
use crate::text::SortBy;
use clockscope_model::trace::{ProcessDetail, TraceReport};
use clockscope_text::foreign::Foreign;
use clockscope_text::units::{count, counted, share};

/// Levels that are drawn; what is deeper stands on the last one.
const LEVELS_MAX: u32 = 8;
/// From this number on, siblings of one name without children take one line.
const CROWD: usize = 6;
/// Lines of one family; the others are added up.
const FAMILY_MAX: usize = 40;
/// Calls named below a process.
const CALLS_NAMED: usize = 5;
/// A process with this share of all calls is open at first.
const OPEN_FROM: f64 = 0.05;

/// The tree; nothing for a single process, of which everything has been said.
pub(super) fn section(page: &mut Page, report: &TraceReport) {
    let all = &report.processes_detail;
    if all.len() < 2 {
        return;
    }
    page.section("Processes");
    let calls = |p: &ProcessDetail| p.vdso_calls;
    let total: u64 = all.iter().fold(0, |sum, p| sum.saturating_add(calls(p)));
    page.paragraph(&format!(
        "{} made {}. Shares are of these, those of a process with its children.",
        counted(all.len() as u64, "process", "processes"),
        counted(total, "vDSO call", "vDSO calls"),
    ));
    page.tree("Processes", &Forest::new(all).branches(total));
}

/// Who made whom.
struct Forest<'a> {
    all: &'a [ProcessDetail],
    roots: Vec<usize>,
    children: HashMap<usize, Vec<usize>>,
    /// Calls of each with all that it made.
    sums: Vec<u64>,
}

impl<'a> Forest<'a> {
    fn new(all: &'a [ProcessDetail]) -> Forest<'a> {
        // A process id can come again: the parent is the last of that id that came before.
        let mut last: HashMap<i32, usize> = HashMap::new();
        let mut parents = Vec::with_capacity(all.len());
        for (index, process) in all.iter().enumerate() {
            parents.push(process.parent.and_then(|parent| last.get(&parent).copied()));
            last.insert(process.pid, index);
        }
        let mut sums: Vec<u64> = all.iter().map(|process| process.vdso_calls).collect();
        let (mut roots, mut children) = (Vec::new(), HashMap::<usize, Vec<usize>>::new());
        for (index, parent) in parents.iter().enumerate().rev() {
            match parent {
                // Parents come before their children, so that here the child's sum is complete.
                Some(parent) => {
                    sums[*parent] = sums[*parent].saturating_add(sums[index]);
                    children.entry(*parent).or_default().push(index);
                }
                None => roots.push(index),
            }
        }
        let mut forest = Forest { all, roots, children, sums };
        let sums = &forest.sums;
        let busiest_first = |family: &mut Vec<usize>| {
            family.sort_by_key(|index| (std::cmp::Reverse(sums[*index]), *index));
        };
        busiest_first(&mut forest.roots);
        forest.children.values_mut().for_each(busiest_first);
        forest
    }

    fn branches(&self, total: u64) -> Vec<Branch> {
        self.family(&self.roots, total, 0)
    }

    /// Lines for siblings: crowds together, then each, then how many more there are.
    fn family(&self, family: &[usize], total: u64, level: u32) -> Vec<Branch> {
        let mut crowds: BTreeMap<&Foreign, Vec<usize>> = BTreeMap::new();
        for index in family.iter().filter(|index| !self.children.contains_key(index)) {
            crowds.entry(&self.all[*index].command).or_default().push(*index);
        }
        crowds.retain(|_, crowd| crowd.len() >= CROWD);
        let in_crowds: HashSet<usize> = crowds.values().flatten().copied().collect();
        let mut lines: Vec<(u64, Branch)> =
            crowds.into_iter().map(|(name, crowd)| self.crowd(name, &crowd, total)).collect();
        let single = || family.iter().filter(|index| !in_crowds.contains(index));
        for index in single().take(FAMILY_MAX) {
            lines.push((self.sums[*index], self.process(*index, total, level)));
        }
        lines.sort_by_key(|(calls, _)| std::cmp::Reverse(*calls));
        let mut branches: Vec<Branch> = lines.into_iter().map(|(_, branch)| branch).collect();
        let rest: Vec<usize> = single().skip(FAMILY_MAX).copied().collect();
        if !rest.is_empty() {
            let calls =
                rest.iter().fold(0, |sum: u64, index| sum.saturating_add(self.sums[*index]));
            let name = format!("{} more", counted(rest.len() as u64, "process", "processes"));
            branches.push(Branch { name, figures: figures(calls, total), ..Branch::default() });
        }
        branches
    }

    fn crowd(&self, name: &Foreign, crowd: &[usize], total: u64) -> (u64, Branch) {
        let calls = || crowd.iter().map(|index| self.all[*index].vdso_calls);
        let sum = calls().fold(0, u64::saturating_add);
        let (least, most) = (calls().min().unwrap_or(0), calls().max().unwrap_or(0));
        let name = format!("{} \u{d7} {}", program(name), count(crowd.len() as u64));
        let range = if least == most { String::new() } else { format!("{} to ", count(least)) };
        let figures = format!("{}; {range}{} each", figures(sum, total), count(most));
        (sum, Branch { name, figures, ..Branch::default() })
    }

    fn process(&self, index: usize, total: u64, level: u32) -> Branch {
        let process = &self.all[index];
        let children = self.children.get(&index).map_or(&[][..], Vec::as_slice);
        let mut text = figures(process.vdso_calls, total);
        if let Some(calls) = process.syscall_calls {
            text += &format!(", {}", counted(calls, "system call", "system calls"));
        }
        let sum = self.sums[index];
        if sum > process.vdso_calls {
            text += &format!("; with its children {}", figures(sum, total));
        }
        let mut lines: Vec<String> = named_calls(process).into_iter().collect();
        let mut branches = Vec::new();
        if level + 1 < LEVELS_MAX {
            branches = self.family(children, total, level + 1);
        } else if !children.is_empty() {
            let below = self.below(index);
            let processes = counted(below, "process", "processes");
            let calls = sum.saturating_sub(process.vdso_calls);
            lines.push(format!("Below it: {processes}, {}", figures(calls, total)));
        }
        let open = level == 0 || (total > 0 && ratio(sum, total) >= OPEN_FROM);
        let name = format!("{} ({})", program(&process.command), process.pid);
        Branch { name, figures: text, lines, open, branches }
    }

    /// How many processes are below one.
    fn below(&self, index: usize) -> u64 {
        let mut waiting = vec![index];
        let mut number = 0;
        while let Some(index) = waiting.pop() {
            let children = self.children.get(&index).map_or(&[][..], Vec::as_slice);
            number += children.len() as u64;
            waiting.extend(children);
        }
        number
    }
}

fn program(name: &Foreign) -> String {
    if name.is_empty() { "a program without a name".to_owned() } else { name.printable() }
}

fn figures(calls: u64, total: u64) -> String {
    let words = counted(calls, "vDSO call", "vDSO calls");
    if total == 0 { words } else { format!("{words} ({})", share(ratio(calls, total))) }
}

/// The calls that a process makes most, where they are known by process.
fn named_calls(process: &ProcessDetail) -> Option<String> {
    let syscalls_timed = were_timed(&process.syscalls);
    let calls = Calls { vdso: &process.vdso, syscalls: &process.syscalls, syscalls_timed };
    let rows = calls.entries(SortBy::Calls);
    let named = rows.iter().take(CALLS_NAMED);
    let named: Vec<String> =
        named.map(|row| format!("{} {}", row.name, count(row.calls))).collect();
    let more = if rows.len() > CALLS_NAMED { ", \u{2026}" } else { "" };
    (!named.is_empty()).then(|| format!("Most calls: {}{more}", named.join(", ")))
}
