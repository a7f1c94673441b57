//! What is wrong with a command line, in one line: what is refused, and what to type instead.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{Cli, habits};
use clockscope_text::names::nearest;

/// The line for an error of `clap`, without the name of the tool. `words` is the command line.
pub(crate) fn line(error: &clap::Error, words: &[OsString]) -> String {
    let words: Vec<String> =
        words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let refusal = Refusal { error, words: &words, cli: Cli::command() };
    match error.kind() {
        ErrorKind::InvalidSubcommand => refusal.no_such_command(),
        ErrorKind::UnknownArgument => refusal.no_such_option(),
        ErrorKind::InvalidValue => refusal.wrong_value(),
        ErrorKind::ValueValidation => refusal.refused_value(),
        ErrorKind::ArgumentConflict => refusal.conflict(),
        ErrorKind::MissingRequiredArgument => refusal.missing(),
        ErrorKind::TooManyValues => {
            format!("{} takes no value; {}", refusal.option(), refusal.see())
        }
        ErrorKind::InvalidUtf8 => format!("a word is no UTF-8; {}", refusal.see()),
        // The kinds that are left do not occur with the options that clockscope has.
        _ => error.kind().as_str().unwrap_or("wrong options").to_lowercase(),
    }
}

struct Refusal<'a> {
    error: &'a clap::Error,
    /// The command line without the first word.
    words: &'a [String],
    cli: clap::Command,
}

impl Refusal<'_> {
    /// The subcommand that was typed.
    fn command(&self) -> &str {
        // Options of the whole command may stand before it.
        let is_command = |word: &&String| self.cli.find_subcommand(word).is_some();
        self.words.iter().find(is_command).map_or("", String::as_str)
    }

    fn see(&self) -> String {
        match self.command() {
            "" => "see clockscope --help".to_owned(),
            command => format!("see clockscope {command} --help"),
        }
    }

    fn text(&self, kind: ContextKind) -> String {
        self.texts(kind).into_iter().next().unwrap_or_default()
    }

    fn texts(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    /// The option that is refused, as it was typed.
    fn option(&self) -> String {
        self.typed(&self.text(ContextKind::InvalidArg))
    }

    /// `--attach <PID>` as it was typed: `-p`.
    fn typed(&self, argument: &str) -> String {
        let name = argument.split([' ', '=', '[']).next().unwrap_or(argument);
        let is_typed =
            self.words.iter().any(|word| word.split('=').next().is_some_and(|word| word == name));
        match self.short_of(name) {
            Some(short) if !is_typed => format!("-{short}"),
            _ if argument.starts_with('-') => name.to_owned(),
            _ => argument.replace(['<', '>', '[', ']'], ""),
        }
    }

    /// The letter of an option, if it has one.
    fn short_of(&self, long: &str) -> Option<char> {
        let long = long.strip_prefix("--")?;
        let subcommand = self.cli.find_subcommand(self.command())?;
        let mut options = subcommand.get_arguments();
        options.find(|option| option.get_long() == Some(long))?.get_short()
    }

    fn no_such_command(&self) -> String {
        let word = self.text(ContextKind::InvalidSubcommand);
        if word.is_empty() {
            return "the command's name is empty; is a variable empty?".to_owned();
        }
        if let Some(instead) = habits::instead_of_command(&word) {
            return format!("there is no command {word}; {instead}");
        }
        let commands = self.cli.get_subcommands().map(clap::Command::get_name);
        format!(
            "there is no command {word}; {}to trace a program of that name: clockscope trace {word}",
            did_you_mean(&word, commands)
        )
    }

    fn no_such_option(&self) -> String {
        let word = self.text(ContextKind::InvalidArg);
        let command = self.command();
        if let Some(instead) = habits::instead_of_option(command, &word) {
            return format!("{word}: {instead}");
        }
        if !word.starts_with('-') {
            return format!("{command} takes no {word}; {}", self.see());
        }
        if command.is_empty() {
            let is_of_trace = self.cli.find_subcommand("trace").is_some_and(|trace| {
                let options = trace.get_arguments();
                options.into_iter().any(|option| is_named(option, &word))
            });
            return if is_of_trace || habits::instead_of_option("trace", &word).is_some() {
                format!("{word} needs a command before it, as in clockscope trace {word}")
            } else {
                format!("there is no option {word}; {}", self.see())
            };
        }
        let subcommand = self.cli.find_subcommand(command);
        let options = subcommand.into_iter().flat_map(clap::Command::get_arguments);
        let longs: Vec<String> =
            options.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        let meant = did_you_mean(&word, longs.iter().map(String::as_str));
        format!("{command} has no option {word}; {meant}{}", self.see())
    }

    fn wrong_value(&self) -> String {
        let (option, value) = (self.option(), self.text(ContextKind::InvalidValue));
        let values = self.texts(ContextKind::ValidValue);
        let valid = values.join(", ");
        if value.is_empty() {
            let argument = self.text(ContextKind::InvalidArg);
            let name = argument.split(['<', '>']).nth(1).unwrap_or_default();
            if !option.starts_with('-') {
                return format!("{name} is empty; is a variable empty?");
            }
            return match valid.as_str() {
                "" => format!("{option} needs a value: {option} {name}"),
                valid => format!("{option} needs a value: {valid}"),
            };
        }
        let meant = did_you_mean(&value, values.iter().map(String::as_str));
        format!("{option} has no value {value}; {meant}there are {valid}")
    }

    fn refused_value(&self) -> String {
        let (option, value) = (self.option(), self.text(ContextKind::InvalidValue));
        let Some(source) = self.error.source() else { return format!("{option} {value} is wrong") };
        if let Some(error) = source.downcast_ref::<ParseIntError>() {
            return match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                    format!("{option} {value}: the number is too large")
                }
                _ => format!("{option} {value}: this is no whole number"),
            };
        }
        if source.is::<ParseFloatError>() {
            return format!("{option} {value}: this is no number");
        }
        let why = source.to_string();
        match why.strip_prefix(&format!("{value} is not in ")).and_then(|it| it.split_once("..=")) {
            Some((least, most)) => {
                format!("{option} {value}: give a number from {least} to {most}")
            }
            // Most name the value themselves.
            None if why.contains(&value) => format!("{option}: {why}"),
            None => format!("{option} {value}: {why}"),
        }
    }

    fn conflict(&self) -> String {
        let option = self.option();
        let others = self.texts(ContextKind::PriorArg);
        let others: Vec<String> = others.iter().map(|other| self.typed(other)).collect();
        let pair = [option.as_str(), others.first().map_or("", String::as_str)];
        let is_pair = |a: &str, b: &str| pair == [a, b] || pair == [b, a];
        if is_pair("-p", "CMD...") || is_pair("--attach", "CMD...") {
            return "-p and a command exclude each other; for ten seconds: --duration 10; for several \
                    processes: -p PID,PID"
                .to_owned();
        }
        if is_pair("--duration", "CMD...") {
            return "--duration goes with -p; for a command: clockscope trace timeout TIME CMD"
                .to_owned();
        }
        format!("{option} does not go with {}; leave one out", others.join(", "))
    }

    fn missing(&self) -> String {
        let command = self.command();
        let missing = self.texts(ContextKind::InvalidArg);
        let plain = |name: &String| name.replace(['<', '>', '[', ']'], "");
        let names: Vec<String> = missing.iter().map(plain).collect();
        let is_command_missing = names.iter().any(|name| name == "CMD...");
        match command {
            "trace" if is_command_missing => {
                "there is nothing to trace; give a command, as in clockscope trace date, or a process: \
                 -p PID"
                    .to_owned()
            }
            "run" if names == ["CMD..."] => {
                "there is nothing to run; give a command, as in clockscope run --clock coarse date"
                    .to_owned()
            }
            _ => format!("{command} needs {}; {}", names.join(" and "), self.see()),
        }
    }
}

/// Whether the word is a name of the option.
fn is_named(option: &clap::Arg, word: &str) -> bool {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    long.as_deref() == Some(word) || short.as_deref() == Some(word)
}

/// A question with the nearest of the names, or nothing if none is near.
fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    // Of one letter everything short is near.
    let meant = nearest(word, names).filter(|_| word.trim_start_matches('-').len() > 1);
    meant.map(|meant| format!("did you mean {meant}? ")).unwrap_or_default()
}
