//! Manual pages, made from the definition of the command line.

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory as _};
use roff::{Inline, Roff, bold, italic, roman};

use super::epilogue::Epilogue;
use clockscope::cli::Cli;

/// Columns of a line of roff; `mandoc -T lint` asks for less than 80, and escapes take some.
const WIDTH: usize = 65;
/// Pages of others that the page of the whole command points to.
const ELSEWHERE: [(&str, &str); 4] =
    [("strace", "1"), ("perf", "1"), ("clock_gettime", "2"), ("vdso", "7")];

/// A manual page.
pub(crate) struct Page {
    /// What it is about: the whole command, or one of its subcommands.
    #[allow(dead_code, reason = "a test compares the page with it")]
    pub(crate) command: Command,
    /// Its file: `clockscope-trace.1`.
    pub(crate) file: String,
    /// Its source, in the man macros of roff.
    pub(crate) source: String,
}

/// The page of the command and those of its subcommands, dated `date` (`2026-11-21`).
pub(crate) fn pages(date: &str) -> Vec<Page> {
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let subcommands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let commands: Vec<Command> = std::iter::once(whole.clone()).chain(subcommands).collect();
    let page = |command: &Command| Page {
        command: command.clone(),
        file: format!("{}.1", name(command)),
        source: source(command, &commands, date),
    };
    commands.iter().map(page).collect()
}

/// `clockscope-trace`
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn source(command: &Command, all: &[Command], date: &str) -> String {
    let version = concat!("clockscope ", env!("CARGO_PKG_VERSION"));
    let help = epilogue_of(command);
    let epilogue = Epilogue::parse(&help);
    let mut roff = Roff::new();
    let title = name(command).to_uppercase();
    roff.control("TH", [title.as_str(), "1", date, version, "clockscope manual"]);
    roff.control("SH", ["NAME"]);
    filled(&mut roff, &format!("{} - {}", name(command), lower_first(&about(command))));
    synopsis(&mut roff, command);
    description(&mut roff, command);
    if command.has_subcommands() {
        subcommands(&mut roff, &all[1..]);
    }
    options(&mut roff, command);
    sections(&mut roff, &epilogue);
    see_also(&mut roff, command, all);
    roff.render()
}

/// The examples and the sections behind the options.
pub(crate) fn epilogue_of(command: &Command) -> String {
    let behind = command.get_after_long_help().or_else(|| command.get_after_help());
    let parts = command.get_before_help().into_iter().chain(behind);
    parts.map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn lower_first(text: &str) -> String {
    text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect()
}

fn upper_first(text: &str) -> String {
    text.chars().take(1).flat_map(char::to_uppercase).chain(text.chars().skip(1)).collect()
}

fn synopsis(roff: &mut Roff, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let command_name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    roff.control("SH", ["SYNOPSIS"]);
    for (index, form) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        let rest = form.strip_prefix(&command_name).unwrap_or(form).replace(['<', '>'], "");
        roff.text([bold(command_name.as_str()), roman(rest)]);
    }
}

/// The long description without its first sentence, which is in NAME.
fn description(roff: &mut Roff, command: &Command) {
    let about = about(command);
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let rest = long.strip_prefix(&about).unwrap_or(&long).trim();
    roff.control("SH", ["DESCRIPTION"]);
    paragraphs(roff, if rest.is_empty() { &about } else { rest });
}

fn subcommands(roff: &mut Roff, commands: &[Command]) {
    roff.control("SH", ["COMMANDS"]);
    for command in commands {
        roff.control("TP", []);
        roff.text([bold(name(command)), roman("(1)")]);
        filled(roff, &about(command));
    }
}

fn options(roff: &mut Roff, command: &Command) {
    roff.control("SH", ["OPTIONS"]);
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    for argument in shown().filter(|argument| argument.is_positional()) {
        let many =
            if argument.get_num_args().is_some_and(|n| n.max_values() > 1) { "..." } else { "" };
        entry(roff, vec![italic(value_names(argument)), roman(many)], argument);
    }
    for argument in shown().filter(|argument| !argument.is_positional()) {
        entry(roff, option_head(argument), argument);
    }
}

/// `-S, --sort SORT`, with the value's name in italics.
fn option_head(option: &Arg) -> Vec<Inline> {
    let short = option.get_short().map(|short| bold(format!("-{short}")));
    let long = option.get_long().map(|long| bold(format!("--{long}")));
    let mut head: Vec<Inline> = Vec::new();
    for name in short.into_iter().chain(long) {
        if !head.is_empty() {
            head.push(roman(", "));
        }
        head.push(name);
    }
    if let Some(range) = option.get_num_args().filter(|range| range.takes_values()) {
        let (before, after) = match (range.min_values(), option.is_require_equals_set()) {
            (0, true) => ("[=", "]"),
            (0, false) => (" [", "]"),
            (_, true) => ("=", ""),
            (_, false) => (" ", ""),
        };
        head.extend([roman(before), italic(value_names(option)), roman(after)]);
    }
    head
}

fn value_names(argument: &Arg) -> String {
    let names = argument.get_value_names().map(|names| names.join(" "));
    names.unwrap_or_else(|| argument.get_id().to_string().to_uppercase())
}

fn entry(roff: &mut Roff, head: Vec<Inline>, argument: &Arg) {
    roff.control("TP", []);
    roff.text(head);
    let help = argument.get_long_help().or_else(|| argument.get_help());
    // What clap adds of its own about `-h` and `--help` is no news in a page that holds both.
    let help = help.map(ToString::to_string).unwrap_or_default();
    let help = help.strip_suffix(" (see a summary with '-h')").unwrap_or(&help);
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_flag = !argument.get_action().takes_values();
    let default = match defaults.join(",") {
        value if value.is_empty() || is_flag => String::new(),
        value => format!(" [default: {value}]"),
    };
    let mut blocks = help.splitn(2, "\n\n");
    filled(roff, &format!("{}{default}", blocks.next().unwrap_or_default()));
    let (rest, values) = (blocks.next(), argument.get_possible_values());
    let values: Vec<&PossibleValue> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if is_flag || (rest.is_none() && values.is_empty()) {
        if let Some(rest) = rest {
            roff.control("IP", []);
            filled(roff, rest);
        }
        return;
    }
    roff.control("RS", []);
    rest.inspect(|rest| filled(roff, rest));
    roff.control("PD", ["0"]);
    for value in values {
        roff.control("TP", ["10"]);
        roff.text([bold(value.get_name())]);
        filled(roff, &value.get_help().map(ToString::to_string).unwrap_or_default());
    }
    roff.control("PD", []);
    roff.control("RE", []);
}

fn sections(roff: &mut Roff, epilogue: &Epilogue) {
    if !epilogue.notes.is_empty() {
        roff.control("SH", ["NOTES"]);
        paragraphs(roff, &epilogue.notes.join("\n\n"));
    }
    roff.control("SH", ["EXAMPLES"]);
    for (command, what) in &epilogue.examples {
        roff.control("TP", []);
        roff.text([bold(command.as_str())]);
        filled(roff, what);
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (index, (status, meaning)) in epilogue.statuses.iter().enumerate() {
        if let Some(status) = status {
            roff.control("TP", ["8"]);
            roff.text([bold(status.as_str())]);
            filled(roff, meaning);
        } else {
            if index > 0 {
                roff.control("PP", []);
            }
            filled(roff, &upper_first(meaning));
        }
    }
}

fn see_also(roff: &mut Roff, command: &Command, all: &[Command]) {
    let own = all.iter().map(name).filter(|other| *other != name(command)).map(|name| (name, "1"));
    let elsewhere = ELSEWHERE.into_iter().filter(|_| command.has_subcommands());
    let pages: Vec<_> = own.chain(elsewhere).collect();
    roff.control("SH", ["SEE ALSO"]);
    for (index, (page, section)) in pages.iter().enumerate() {
        let comma = if index + 1 == pages.len() { "" } else { "," };
        roff.control("BR", [*page, &format!("({section}){comma}")]);
    }
}

fn paragraphs(roff: &mut Roff, text: &str) {
    for (index, paragraph) in text.split("\n\n").enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        filled(roff, paragraph);
    }
}

/// Text in lines of roff that are short enough for `mandoc -T lint`.
fn filled(roff: &mut Roff, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + word.len() >= WIDTH {
            roff.text([roman(std::mem::take(&mut line))]);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        roff.text([roman(line)]);
    }
}
