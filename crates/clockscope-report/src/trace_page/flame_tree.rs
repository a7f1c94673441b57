//! From stacks to the frames of a flame graph: one tree, cut below what can be seen.

use std::collections::HashMap;

use super::super::page::FlameView;
use clockscope_model::callers::{CalledRow, Callers, FrameKind, FrameRow};
use clockscope_model::names::with_clock;
use clockscope_text::foreign::Foreign;

/// Frames below this share of all calls are put together.
const LEAST_SHARE: f64 = 0.0005;
/// What their sum is called.
const OTHER: &str = "(other)";
/// What stands above a stack whose first function was not reached.
const CUT: (&str, &str) = ("[cut]", "the callers above are not known");
/// Modules with a colour of their own.
const MODULES: usize = 5;

/// Numbers of colours: programs and what is put together, modules from [`MODULE`] on, all other modules,
/// what is called, what is unknown.
const PLAIN: usize = 0;
pub(super) const MODULE: usize = 1;
pub(super) const OTHER_MODULE: usize = MODULE + MODULES;
pub(super) const CALLED: usize = OTHER_MODULE + 1;
pub(super) const UNKNOWN: usize = CALLED + 1;

/// A function in the tree, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Function {
    name: String,
    module: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Plain,
    Code,
    Called,
    Unknown,
}

#[derive(Debug, Default)]
struct Node {
    function: usize,
    calls: f64,
    children: Vec<usize>,
}

/// Stacks as a tree.
#[derive(Debug, Default)]
pub(super) struct FlameTree {
    functions: Vec<Function>,
    number_of: HashMap<Function, usize>,
    nodes: Vec<Node>,
    child_of: HashMap<(usize, usize), usize>,
}

impl FlameTree {
    /// The tree of all stacks; `program` names the process with an id.
    pub(super) fn new(callers: &Callers, program: &dyn Fn(i32) -> String) -> FlameTree {
        let mut tree = FlameTree::default();
        let whole = tree.number(plain("all calls"));
        tree.nodes.push(Node { function: whole, ..Node::default() });
        let frames: Vec<usize> = callers.frames.iter().map(|f| tree.number(of_frame(f))).collect();
        let called: Vec<usize> = callers.called.iter().map(|c| tree.number(of_called(c))).collect();
        let cut =
            tree.number(Function { module: CUT.1.to_owned(), kind: Kind::Unknown, ..plain(CUT.0) });
        let mut programs: HashMap<i32, usize> = HashMap::new();
        for stack in callers.stacks.iter().filter(|s| s.calls.is_finite() && s.calls > 0.0) {
            let first = *programs
                .entry(stack.pid)
                .or_insert_with(|| tree.number(plain(&program(stack.pid))));
            let mut at = tree.enter(0, first, stack.calls);
            if !stack.complete {
                at = tree.enter(at, cut, stack.calls);
            }
            for frame in stack.frames.iter().rev().filter_map(|frame| frames.get(*frame)) {
                at = tree.enter(at, *frame, stack.calls);
            }
            if let Some(called) = called.get(stack.called) {
                tree.enter(at, *called, stack.calls);
            }
            tree.nodes[0].calls += stack.calls;
        }
        tree
    }

    fn number(&mut self, function: Function) -> usize {
        let next = self.functions.len();
        let functions = &mut self.functions;
        *self.number_of.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            next
        })
    }

    /// Adds calls to a child, and gives the child.
    fn enter(&mut self, parent: usize, function: usize, calls: f64) -> usize {
        let next = self.nodes.len();
        let child = *self.child_of.entry((parent, function)).or_insert(next);
        if child == next {
            self.nodes.push(Node { function, ..Node::default() });
            self.nodes[parent].children.push(child);
        }
        self.nodes[child].calls += calls;
        child
    }

    /// Modules with a colour, from the one with the most calls in its own functions on.
    fn coloured_modules(&self) -> Vec<String> {
        let mut calls: HashMap<&str, f64> = HashMap::new();
        for node in &self.nodes {
            let function = &self.functions[node.function];
            if function.kind == Kind::Code {
                *calls.entry(&function.module).or_default() += node.calls;
            }
        }
        let mut modules: Vec<(&str, f64)> = calls.into_iter().filter(|m| !m.0.is_empty()).collect();
        modules.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        modules.into_iter().take(MODULES).map(|(name, _)| name.to_owned()).collect()
    }

    /// The frames that can be seen, each after its caller, the busiest first; names of modules with a
    /// colour beside it.
    pub(super) fn view(mut self) -> (FlameView, Vec<String>) {
        let other = self.number(plain(OTHER));
        let modules = self.coloured_modules();
        let least = self.nodes[0].calls * LEAST_SHARE;
        let mut view = FlameView::default();
        let mut shown: HashMap<usize, usize> = HashMap::new();
        let mut note_numbers: HashMap<String, usize> = HashMap::new();
        let mut waiting = vec![(0_u32, self.nodes[0].function, self.nodes[0].calls, Some(0))];
        while let Some((depth, function, calls, node)) = waiting.pop() {
            let name = *shown.entry(function).or_insert_with(|| {
                let function = &self.functions[function];
                let next = note_numbers.len();
                let note = *note_numbers.entry(function.module.clone()).or_insert(next);
                if note == view.notes.len() {
                    view.notes.push(function.module.clone());
                }
                view.note_of.push(note);
                view.colour_of.push(colour(function, &modules));
                view.names.push(function.name.clone());
                view.names.len() - 1
            });
            view.frames.push((depth, name, whole(calls)));
            let Some(node) = node else { continue };
            let children = &self.nodes[node].children;
            let mut seen: Vec<usize> =
                children.iter().copied().filter(|c| self.nodes[*c].calls >= least).collect();
            seen.sort_by(|a, b| self.nodes[*a].calls.total_cmp(&self.nodes[*b].calls));
            let hidden = children.iter().map(|child| self.nodes[*child].calls);
            let hidden: f64 = hidden.filter(|calls| *calls < least).sum();
            if hidden >= least && hidden > 0.0 {
                waiting.push((depth + 1, other, hidden, None));
            }
            // The last one that is pushed comes next: the busiest.
            for child in seen {
                let Node { function, calls, .. } = self.nodes[child];
                waiting.push((depth + 1, function, calls, Some(child)));
            }
        }
        (view, modules)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive; `as` saturates"
)]
fn whole(calls: f64) -> u64 {
    calls.round() as u64
}

fn plain(name: &str) -> Function {
    Function { name: name.to_owned(), module: String::new(), kind: Kind::Plain }
}

fn of_called(called: &CalledRow) -> Function {
    let name = with_clock(&called.name, called.clock.as_deref());
    let module = if called.via == "syscall" { "system call" } else { "vDSO" };
    Function { name, module: module.to_owned(), kind: Kind::Called }
}

fn of_frame(frame: &FrameRow) -> Function {
    let path = frame.module.as_ref().map(Foreign::printable).unwrap_or_default();
    let module = path.rsplit('/').next().unwrap_or(&path).to_owned();
    match (&frame.function, frame.kind) {
        (Some(name), kind) => {
            let mark = if kind == FrameKind::Inlined { " (inlined)" } else { "" };
            let name = format!("{name}{mark}");
            Function { name, module, kind: Kind::Code }
        }
        (None, _) if module.is_empty() => {
            Function { name: "[unknown]".to_owned(), module, kind: Kind::Unknown }
        }
        (None, _) => Function {
            name: format!("[{}]", module.trim_matches(['[', ']'])),
            module,
            kind: Kind::Unknown,
        },
    }
}

fn colour(function: &Function, modules: &[String]) -> usize {
    match function.kind {
        Kind::Plain => PLAIN,
        Kind::Called => CALLED,
        Kind::Unknown => UNKNOWN,
        Kind::Code => {
            let place = modules.iter().position(|module| *module == function.module);
            place.map_or(OTHER_MODULE, |place| MODULE + place)
        }
    }
}
