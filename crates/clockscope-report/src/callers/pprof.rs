//! The stacks as a profile for `go tool pprof`: a gzipped `perftools.profiles.Profile`.

mod message;

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use self::message::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use super::{shares, sites};
use clockscope_model::callers::{CalledRow, Callers, FrameKind, FrameRow, StackRow};
use clockscope_model::names;
use clockscope_model::trace::{TraceReport, Via};
use clockscope_text::foreign::{Foreign, joined, printable};
use clockscope_text::units;

/// The profile. The values of a sample are `calls` in `count` and, if calls were timed, `time` in
/// `nanoseconds`; its labels are `pid`, `command`, `via` and `clock`. `ended_ns` is the end of counting, in
/// nanoseconds since 1970 UTC.
///
/// # Errors
///
/// None that a report can cause; otherwise an error of the compressor.
pub fn render(report: &TraceReport, ended_ns: u64) -> std::io::Result<Vec<u8>> {
    // The gzip header has no time, so the same report makes the same file.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut profile = profile(report);
    let began_ns = ended_ns.saturating_sub(report.wall_ns);
    profile.time_nanos = i64::try_from(began_ns).unwrap_or(i64::MAX);
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish()
}

fn profile(report: &TraceReport) -> Profile {
    let nothing = Callers::default();
    let callers = report.callers.as_ref().unwrap_or(&nothing);
    let mut builder = Builder::new(report, callers);
    let whole = shares::whole_calls(callers);
    for (stack, calls) in callers.stacks.iter().zip(&whole.of_stacks) {
        if *calls > 0 && stack.called < callers.called.len() {
            builder.sample(stack, *calls);
        }
    }
    for (row, calls) in whole.without_stack.iter().enumerate().filter(|(_, calls)| **calls > 0) {
        builder.push(row, vec![builder.called[row]], Vec::new(), *calls);
    }
    builder.finish()
}

struct Builder<'a> {
    report: &'a TraceReport,
    callers: &'a Callers,
    profile: Profile,
    strings: HashMap<String, i64>,
    /// Ids by name and file.
    functions: HashMap<(i64, i64), u64>,
    /// Ids by the frames of one address.
    locations: HashMap<Vec<usize>, u64>,
    /// Ids of the called functions, by row.
    called: Vec<u64>,
    /// Average time of a call in picoseconds, by row.
    averages: Vec<Option<u64>>,
}

impl<'a> Builder<'a> {
    fn new(report: &'a TraceReport, callers: &'a Callers) -> Self {
        let averages = callers.called.iter().map(|row| sites::average_ps(report, row)).collect();
        let mut builder = Self {
            report,
            callers,
            profile: Profile::default(),
            strings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            called: Vec::new(),
            averages,
        };
        // The format wants the empty string first.
        builder.string("");
        let calls = builder.value_type("calls", "count");
        builder.profile.sample_type.push(calls);
        builder.profile.default_sample_type = calls.r#type;
        if builder.averages.iter().any(Option::is_some) {
            let time = builder.value_type("time", "nanoseconds");
            builder.profile.sample_type.push(time);
        }
        builder.called = callers.called.iter().map(|row| builder.called_location(row)).collect();
        builder
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = i64::try_from(self.profile.string_table.len()).unwrap_or(0);
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, what: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.string(what), unit: self.string(unit) }
    }

    fn mapping(&mut self, file: &str) -> u64 {
        let filename = self.string(file);
        let known = self.profile.mapping.iter().find(|mapping| mapping.filename == filename);
        if let Some(mapping) = known {
            return mapping.id;
        }
        let id = self.profile.mapping.len() as u64 + 1;
        // `has_functions` is set for all mappings, so pprof does not look for symbols itself: clockscope has
        // already named all that it could.
        let mapping = Mapping { id, filename, has_functions: true, ..Mapping::default() };
        self.profile.mapping.push(mapping);
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.string(name), self.string(file));
        let next = self.profile.function.len() as u64 + 1;
        let id = *self.functions.entry((name, filename)).or_insert(next);
        if id == next {
            let function = Function { id, name, system_name: name, filename };
            self.profile.function.push(function);
        }
        id
    }

    /// The location of the called function, above the innermost frame.
    fn called_location(&mut self, row: &CalledRow) -> u64 {
        let mapping_id = self.mapping(match row.via {
            Via::Syscall => "[kernel]",
            Via::Vdso => "[vdso]",
            Via::Unknown => "[unknown]",
        });
        let function_id = self.function(&names::called(row), "");
        self.location(mapping_id, 0, vec![Line { function_id, line: 0 }])
    }

    fn location(&mut self, mapping_id: u64, address: u64, line: Vec<Line>) -> u64 {
        let id = self.profile.location.len() as u64 + 1;
        if let Some(mapping) = self.profile.mapping.iter_mut().find(|m| m.id == mapping_id) {
            mapping.memory_limit = mapping.memory_limit.max(address.saturating_add(1));
            mapping.has_filenames |= line.iter().any(|line| line.line > 0);
            mapping.has_line_numbers |= line.iter().any(|line| line.line > 0);
            mapping.has_inline_frames |= line.len() > 1;
        }
        let location = Location { id, mapping_id, address, line };
        self.profile.location.push(location);
        id
    }

    /// The location of a function and of the functions inlined into it, the innermost first.
    fn frames_location(&mut self, frames: &[usize]) -> u64 {
        if let Some(id) = self.locations.get(frames) {
            return *id;
        }
        let rows: Vec<&FrameRow> =
            frames.iter().map(|index| &self.callers.frames[*index]).collect();
        let outer = rows[rows.len() - 1];
        let mapping_id =
            outer.module.as_ref().map_or(0, |module| self.mapping(&module.printable()));
        let lines = rows
            .iter()
            .map(|row| Line {
                function_id: self.function(
                    &names::frame(row),
                    &row.file.as_ref().map(Foreign::printable).unwrap_or_default(),
                ),
                line: row.line.unwrap_or(0).into(),
            })
            .collect();
        let id = self.location(mapping_id, outer.address, lines);
        self.locations.insert(frames.to_vec(), id);
        id
    }

    /// The locations of a stack, the innermost first.
    fn places(&mut self, stack: &StackRow) -> Vec<u64> {
        let known = |index: &&usize| **index < self.callers.frames.len();
        let frames: Vec<usize> = stack.frames.iter().filter(known).copied().collect();
        let callers = self.callers;
        let inlined = |index: &usize| callers.frames[*index].kind == FrameKind::Inlined;
        frames
            .split_inclusive(|index| !inlined(index))
            .map(|frames| self.frames_location(frames))
            .collect()
    }

    fn sample(&mut self, stack: &StackRow, calls: u64) {
        let mut location_id = vec![self.called[stack.called]];
        location_id.extend(self.places(stack));
        if !stack.complete {
            let function_id = self.function(names::CUT, "");
            // All cut stacks share one location, stored under the empty key, which no frame has.
            let id = match self.locations.get(&Vec::new()) {
                Some(id) => *id,
                None => self.location(0, 0, vec![Line { function_id, line: 0 }]),
            };
            self.locations.insert(Vec::new(), id);
            location_id.push(id);
        }
        let pid = self.string("pid");
        let mut label = vec![Label { key: pid, num: stack.pid.into(), ..Label::default() }];
        let command = names::process(self.report, stack.pid);
        label.push(self.text_label("command", &command));
        self.push(stack.called, location_id, label, calls);
    }

    fn push(&mut self, row: usize, location_id: Vec<u64>, mut label: Vec<Label>, calls: u64) {
        let called = &self.callers.called[row];
        label.push(self.text_label("via", called.via.name()));
        label.extend(called.clock.iter().map(|clock| self.text_label("clock", clock)));
        let mut value = vec![i64::try_from(calls).unwrap_or(i64::MAX)];
        if self.profile.sample_type.len() > 1 {
            let picos = u128::from(calls) * u128::from(self.averages[row].unwrap_or(0));
            value.push(i64::try_from((picos + 500) / 1_000).unwrap_or(i64::MAX));
        }
        self.profile.sample.push(Sample { location_id, value, label });
    }

    fn text_label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.string(key), str: self.string(&printable(text)), ..Label::default() }
    }

    fn finish(mut self) -> Profile {
        let command = joined(&self.report.command, " ");
        let stacks = units::counted(self.callers.samples, "stack", "stacks");
        let lost = units::count(self.callers.lost);
        let comments =
            [format!("clockscope trace {command}"), format!("{stacks} sampled, {lost} lost")];
        self.profile.comment = comments.iter().map(|text| self.string(text)).collect();
        self.profile.duration_nanos = i64::try_from(self.report.wall_ns).unwrap_or(i64::MAX);
        self.profile
    }
}

#[cfg(test)]
mod tests;
