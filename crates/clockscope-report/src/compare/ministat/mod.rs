//! The output of ministat, byte for byte.

mod plot;

use super::numbers::general;
use clockscope_stats::ministat::{LEVELS, Set, relative};

/// The symbols of the sets; the first one stands for no set.
const SYMBOLS: [char; 8] = [' ', 'x', '+', '*', '%', '#', '@', 'O'];
/// The most sets that ministat compares.
pub const SETS_MAX: usize = SYMBOLS.len() - 1;
/// Width of the plot when the output is no terminal.
pub const WIDTH: usize = 74;

/// Options of ministat's output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinistatOptions {
    /// Index of [`LEVELS`].
    pub level: usize,
    /// Draw the plot (not `-A`).
    pub plot: bool,
    /// Compare (not `-n`).
    pub compare: bool,
    /// Draw a separate line for each set's bar (`-s`).
    pub separate_bars: bool,
    /// Columns of the plot, at least 2.
    pub width: usize,
}

/// The whole output for sets with their names, at least one and at most `SETS_MAX`.
pub fn render(sets: &[(String, Set)], options: &MinistatOptions) -> String {
    let named = sets.iter().zip(&SYMBOLS[1..]);
    let mut text: String = named.map(|((name, _), symbol)| format!("{symbol} {name}\n")).collect();
    if options.plot && options.compare {
        text.push_str(&plot::draw(sets, options));
    }
    text += "    N           Min           Max        Median           Avg        Stddev\n";
    for (index, ((_, set), symbol)) in sets.iter().zip(&SYMBOLS[1..]).enumerate() {
        vitals(&mut text, set, *symbol);
        if index > 0 && options.compare {
            difference(&mut text, set, &sets[0].1, options.level);
        }
    }
    text
}

fn vitals(text: &mut String, set: &Set, symbol: char) {
    let figures =
        [set.min(), set.max(), set.median(), set.mean(), set.standard_deviation()].map(|figure| {
            let figure = general(figure, 8);
            format!(" {figure:>13}")
        });
    *text += &format!("{symbol} {:>3}{}\n", set.count(), figures.concat());
}

fn difference(text: &mut String, set: &Set, reference: &Set, level: usize) {
    let confidence = LEVELS[level];
    let Some(found) = relative(set, reference, level) else {
        *text += &format!("No difference proven at {confidence:.1}% confidence\n");
        return;
    };
    let short = |value: f64| general(value, 6);
    let percent = |value: f64| short(value * 100.0 / reference.mean());
    *text += &format!("Difference at {confidence:.1}% confidence\n");
    *text += &format!("\t{} +/- {}\n", short(found.difference), short(found.error));
    *text += &format!("\t{}% +/- {}%\n", percent(found.difference), percent(found.error));
    *text += &format!("\t(Student's t, pooled s = {})\n", short(found.pooled));
}

/// ministat's usage error: `complaint`, then the usage.
pub fn usage(complaint: &str) -> String {
    let levels: Vec<String> =
        LEVELS.iter().map(|level| format!("{}%", general(*level, 6))).collect();
    format!(
        "{complaint}\n\
         Usage: ministat [-C column] [-c confidence] [-d delimiter(s)] [-Ans] [-w width] \
         [file [file ...]]\n\
         \tconfidence = {{{}}}\n\
         \t-A : print statistics only. suppress the graph.\n\
         \t-C : column number to extract (starts and defaults to 1)\n\
         \t-d : delimiter(s) string, default to \" \\t\"\n\
         \t-n : print summary statistics only, no graph/test\n\
         \t-s : print avg/median/stddev bars on separate lines\n\
         \t-w : width of graph/test output (default 74 or terminal width)\n",
        levels.join(", ")
    )
}
