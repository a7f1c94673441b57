//! Functions that a runtime executes, by the runtime's own data.

use std::collections::HashMap;

use clockscope_text::foreign::Foreign;

/// A place in a managed function, numbered in the order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagedId(usize);

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: Foreign,
    /// `[java]`
    pub(super) module: &'static str,
    pub(super) file: Option<Foreign>,
    pub(super) line: Option<u32>,
    /// Whether the function is compiled into its caller.
    pub(super) is_inlined: bool,
}

/// Start time of a cache of a process's memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remembered {
    since_ns: u64,
}

impl Remembered {
    /// Lifetime of the cache in nanoseconds: after that, another function may lie at the same
    /// address.
    const FRESH_NS: u64 = 100_000_000;

    /// Whether the cache must be cleared now; if so, restarts its lifetime.
    pub(super) fn is_stale(&mut self, now_ns: u64) -> bool {
        let is_stale = now_ns.saturating_sub(self.since_ns) >= Self::FRESH_NS;
        if is_stale {
            self.since_ns = now_ns;
        }
        is_stale
    }
}

/// All functions that were seen.
#[derive(Debug, Default)]
pub(super) struct Names {
    functions: Vec<Function>,
    ids: HashMap<Function, ManagedId>,
}

impl Names {
    pub(super) fn id(&mut self, function: Function) -> ManagedId {
        *self.ids.entry(function).or_insert_with_key(|function| {
            self.functions.push(function.clone());
            ManagedId(self.functions.len() - 1)
        })
    }

    pub(super) fn function(&self, id: ManagedId) -> Option<&Function> {
        self.functions.get(id.0)
    }
}
