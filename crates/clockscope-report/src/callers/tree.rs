//! The callers of one function as a tree: its callers, their callers, and so on.

use clockscope_stats::order;
use clockscope_text::foreign::Foreign;
use std::collections::HashMap;

use super::wrappers::{self, Line};
use crate::options::CallersOptions;
use clockscope_model::callers::{Callers, FrameKind};
use clockscope_model::names;
use clockscope_text::units;

/// Columns of a connector with its share: `|--62.1%--`.
const CONNECTOR: usize = 10;
/// Least number of columns for a name; a branch further right is not drawn.
const NAME_LEAST: usize = 22;
/// Longest chain of functions without a branch that is printed in full. The middle of a longer one is left
/// out: the line to change is near one end, the origin of the work near the other.
const CHAIN: usize = 10;
const CHAIN_HEAD: usize = 5;
const CHAIN_TAIL: usize = 3;
/// Least share for a line about hidden or cut callers: from here on it prints as 0.1 % or more.
const LEAST_SHARE: f64 = 0.000_5;
/// Stands in place of the missing part of a stack.
pub(super) const NOT_KNOWN: &str = "[callers not known]";

/// A function in the tree; the root is the called function.
#[derive(Debug, Default)]
struct Node {
    name: String,
    calls: f64,
    /// Calls whose stack is cut here.
    cut: f64,
    /// Whether the function called itself.
    recursive: bool,
    children: Vec<usize>,
}

/// The callers of one row of `called`.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Calls whose first frame is the C library's function of the same name, which is left out.
    pub(super) through_library: f64,
    /// Whether functions that start programs and threads were left out.
    pub(super) without_starters: bool,
}

/// The class of each frame: frames of the same function share a node.
#[derive(Debug)]
pub(super) struct Classes {
    of_frames: Vec<usize>,
    names: Vec<String>,
    /// Classes of runs of a runtime's own frames, by name.
    of_runtimes: HashMap<String, usize>,
}

impl Classes {
    /// The classes of all frames.
    pub(super) fn of(callers: &Callers) -> Classes {
        let mut known: HashMap<(String, Option<&Foreign>), usize> = HashMap::new();
        let mut names = Vec::new();
        let of_frames = callers.frames.iter().map(|frame| {
            let mut name = names::frame(frame);
            if frame.kind == FrameKind::Inlined {
                name += wrappers::INLINED;
            }
            *known.entry((name, frame.module.as_ref())).or_insert_with_key(|(name, _)| {
                names.push(name.clone());
                names.len() - 1
            })
        });
        let of_frames = of_frames.collect();
        let mut classes = Classes { of_frames, names, of_runtimes: HashMap::new() };
        for stack in &callers.stacks {
            for line in wrappers::lines(&stack.frames, &callers.frames) {
                if let Line::Runtime(name) = line
                    && !classes.of_runtimes.contains_key(&name)
                {
                    classes.of_runtimes.insert(name.clone(), classes.names.len());
                    classes.names.push(name);
                }
            }
        }
        classes
    }

    fn of_line(&self, line: &Line) -> Option<usize> {
        match line {
            Line::Frame(index) => self.of_frames.get(*index).copied(),
            Line::Runtime(name) => self.of_runtimes.get(name).copied(),
        }
    }
}

impl Tree {
    /// The tree of a row of `called`.
    pub(super) fn of(callers: &Callers, row: usize, classes: &Classes) -> Tree {
        let mut tree =
            Tree { nodes: vec![Node::default()], through_library: 0.0, without_starters: false };
        let mut places: HashMap<(usize, usize), usize> = HashMap::new();
        let called = &callers.called[row];
        for stack in callers.stacks.iter().filter(|stack| stack.called == row) {
            let calls = if stack.calls.is_finite() { stack.calls.max(0.0) } else { 0.0 };
            let known = |index: &&usize| **index < classes.of_frames.len();
            let mut frames: Vec<usize> = stack.frames.iter().filter(known).copied().collect();
            if frames.first().is_some_and(|i| wrappers::is_same_call(&callers.frames[*i], called)) {
                frames.remove(0);
                tree.through_library += calls;
            }
            // A cut stack does not reach the functions that start programs.
            let starters = wrappers::starters(&frames, &callers.frames);
            let starters = if stack.complete { starters } else { 0 };
            if starters > 0 && starters < frames.len() {
                frames.truncate(frames.len() - starters);
                tree.without_starters = true;
            }
            let lines = wrappers::lines(&frames, &callers.frames);
            let path = lines.iter().filter_map(|line| classes.of_line(line));
            tree.add(path, calls, stack.complete, &mut places, classes);
        }
        tree
    }

    fn add(
        &mut self,
        path: impl Iterator<Item = usize>,
        calls: f64,
        complete: bool,
        places: &mut HashMap<(usize, usize), usize>,
        classes: &Classes,
    ) {
        let (mut at, mut class_before) = (0, None);
        self.nodes[0].calls += calls;
        for class in path {
            // Direct recursion is one node: its depth adds no caller.
            if class_before == Some(class) {
                self.nodes[at].recursive = true;
                continue;
            }
            class_before = Some(class);
            let next = *places.entry((at, class)).or_insert(self.nodes.len());
            if next == self.nodes.len() {
                self.nodes.push(Node { name: classes.names[class].clone(), ..Node::default() });
                self.nodes[at].children.push(next);
            }
            at = next;
            self.nodes[at].calls += calls;
        }
        if !complete {
            self.nodes[at].cut += calls;
        }
    }

    /// Lines of the tree, the callers with most calls first; empty if no stack has calls.
    pub(super) fn render(&self, limits: CallersOptions) -> String {
        let mut out = String::new();
        if self.nodes[0].calls > 0.0 {
            self.branches(0, "  ", limits, &mut out);
        }
        out
    }

    fn share(&self, calls: f64) -> f64 {
        calls / self.nodes[0].calls
    }

    /// The callers of a node that reach the limit, the greatest first.
    fn shown(&self, node: usize, limits: CallersOptions) -> Vec<usize> {
        let mut children = self.nodes[node].children.clone();
        children.retain(|child| {
            let calls = self.nodes[*child].calls;
            // A share that prints as the limit counts as reaching it.
            calls > 0.0 && self.share(calls) + LEAST_SHARE >= limits.least_share
        });
        order::by(&mut children, |a, b| {
            let (a, b) = (&self.nodes[*a], &self.nodes[*b]);
            b.calls.total_cmp(&a.calls).then_with(|| a.name.cmp(&b.name))
        });
        children
    }

    /// The only caller of a node, if all others together are below the limit; printed on the next line
    /// without a share.
    fn only_caller(&self, node: usize, limits: CallersOptions) -> Option<usize> {
        let shown = self.shown(node, limits);
        let [only] = shown[..] else { return None };
        let others = self.share(self.nodes[node].calls - self.nodes[only].calls);
        (others < limits.least_share.max(1e-9)).then_some(only)
    }

    fn branches(&self, node: usize, prefix: &str, limits: CallersOptions, out: &mut String) {
        let shown = self.shown(node, limits);
        let mut lines: Vec<(f64, Branch)> =
            shown.iter().map(|child| (self.nodes[*child].calls, Branch::Caller(*child))).collect();
        let hidden = self.nodes[node].children.iter().filter(|child| !shown.contains(child));
        let hidden: Vec<f64> = hidden.map(|child| self.nodes[*child].calls).collect();
        let rest = [
            (self.nodes[node].cut, Branch::Cut),
            (hidden.iter().sum(), Branch::Hidden(hidden.len())),
        ];
        lines.extend(rest.into_iter().filter(|(calls, _)| self.share(*calls) >= LEAST_SHARE));
        if prefix.len() + CONNECTOR + NAME_LEAST > limits.width {
            if !lines.is_empty() {
                *out += &format!("{prefix}...\n");
            }
            return;
        }
        let last = lines.len().saturating_sub(1);
        for (index, (calls, branch)) in lines.into_iter().enumerate() {
            let percent = format!("{:.1}%", self.share(calls) * 100.0);
            let bar = if index == last { ' ' } else { '|' };
            let connector = format!("{prefix}{bar}{percent:->7}--");
            let below = format!("{prefix}{bar}{:9}", "");
            match branch {
                Branch::Caller(child) => self.chain(child, &connector, &below, limits, out),
                Branch::Cut => line(&connector, NOT_KNOWN, limits, out),
                Branch::Hidden(callers) => {
                    let many = units::counted(callers as u64, "caller", "callers");
                    let limit = units::share(limits.least_share);
                    line(&connector, &format!("[{many} below {limit}]"), limits, out);
                }
            }
        }
    }

    /// A caller, and below it the chain of only callers.
    fn chain(
        &self,
        first: usize,
        connector: &str,
        below: &str,
        limits: CallersOptions,
        out: &mut String,
    ) {
        let mut chain = vec![first];
        let mut last = first;
        while let Some(next) = self.only_caller(last, limits) {
            chain.push(next);
            last = next;
        }
        let is_long = chain.len() > CHAIN && !limits.whole;
        let left_out = if is_long { chain.len() - CHAIN_HEAD - CHAIN_TAIL } else { 0 };
        for (index, node) in chain.into_iter().enumerate() {
            let prefix = if index == 0 { connector } else { below };
            if left_out > 0 && index == CHAIN_HEAD {
                line(below, &format!("... {left_out} more"), limits, out);
            }
            if left_out == 0 || !(CHAIN_HEAD..CHAIN_HEAD + left_out).contains(&index) {
                let node = &self.nodes[node];
                let recursive = if node.recursive { " (recursive)" } else { "" };
                line(prefix, &format!("{}{recursive}", node.name), limits, out);
            }
        }
        let end = &self.nodes[last];
        if end.cut > 0.0 && self.share(end.calls - end.cut) < limits.least_share.max(1e-9) {
            line(below, NOT_KNOWN, limits, out);
        } else {
            self.branches(last, below, limits, out);
        }
    }
}

/// Content of a line of the tree.
enum Branch {
    Caller(usize),
    Cut,
    Hidden(usize),
}

fn line(prefix: &str, name: &str, limits: CallersOptions, out: &mut String) {
    let room = limits.width.saturating_sub(prefix.len()).max(1);
    *out += prefix;
    *out += &wrappers::fitted(name, room);
    out.push('\n');
}

#[cfg(test)]
mod tests;
