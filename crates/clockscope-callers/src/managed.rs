//! Functions that a runtime executes, by what the runtime itself knows of them.

use std::collections::HashMap;

use clockscope_text::foreign::Foreign;

/// A place in such a function, in the order of first sight.
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
    /// Compiled into its caller.
    pub(super) is_inlined: bool,
}

/// All that were seen.
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
