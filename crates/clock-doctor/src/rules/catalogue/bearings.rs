//! The consequences of a label for other findings, for the advice, and for the guards. The catalogue's `@` lines state
//! them.

use std::sync::LazyLock;

use super::{Fix, Label, Says};

/// The consequences of a label for the other findings and the advice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bearing {
    /// High for a cause, low for a consequence.
    pub(crate) weight: u8,
    /// Its possible causes, if its rule does not name one: the first of these that was found is taken.
    pub(crate) follows: Vec<Label>,
    /// The reason for a fix, as a clause, if the title does not serve as one.
    pub(crate) clause: &'static str,
    /// Fixes that this label rules out; the report names them.
    pub(crate) forbids: Vec<Fix>,
    /// Further fixes that this label rules out, though only some of its rules name them.
    pub(crate) also_forbids: Vec<Fix>,
    /// Why the TSC must not be forced with this finding, as an order after `Never:`. `add` becomes `keep` if
    /// tsc=reliable is set. If several were found, the least number counts.
    pub(crate) never: Option<(u8, &'static str)>,
    /// The kernel version without its cause, and the reason as a clause. If several were found, the least number
    /// counts.
    pub(crate) mended: Option<(u8, (u32, u32), &'static str)>,
    /// Words that the fix `remove-parameter` takes off the kernel's command line.
    pub(crate) removes: Vec<&'static str>,
    /// Statements that rules and advice test for.
    pub(crate) says: Vec<Says>,
    /// Findings, and the state of the clock, that this label implies.
    pub(crate) implies: Vec<Label>,
}

static BEARINGS: LazyLock<Vec<Bearing>> = LazyLock::new(|| {
    let of = |label: Label| Bearing::of(&label.page().lines).unwrap_or_default();
    Label::ALL.into_iter().map(of).collect()
});

impl Bearing {
    /// `None` if a line has another key or value.
    pub(super) fn of(lines: &[(&'static str, &'static str)]) -> Option<Bearing> {
        let mut bearing = Bearing { weight: 50, ..Bearing::default() };
        for &(key, text) in lines {
            let numbered =
                || text.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
            match key {
                "weight" => bearing.weight = text.parse().ok()?,
                "clause" => bearing.clause = text,
                "follows" => bearing.follows = all(text, Label::named)?,
                "implies" => bearing.implies = all(text, Label::named)?,
                "forbids" => bearing.forbids = all(text, Fix::named)?,
                "also-forbids" => bearing.also_forbids = all(text, Fix::named)?,
                "removes" => bearing.removes = text.split(' ').collect(),
                "says" => bearing.says = all(text, Says::named)?,
                "never" => bearing.never = Some(numbered()?),
                "mended" => {
                    let (place, (version, gain)) =
                        numbered().and_then(|(n, rest)| Some((n, rest.split_once(' ')?)))?;
                    let (major, minor) = version.split_once('.')?;
                    bearing.mended =
                        Some((place, (major.parse().ok()?, minor.parse().ok()?), gain));
                }
                _ if key.starts_with("tell:") => {}
                _ => return None,
            }
        }
        Some(bearing)
    }
}

fn all<T>(names: &str, named: fn(&str) -> Option<T>) -> Option<Vec<T>> {
    names.split(' ').map(named).collect()
}

impl Label {
    /// The label's consequences.
    pub(crate) fn bearing(self) -> &'static Bearing {
        &BEARINGS[self as usize]
    }
}
