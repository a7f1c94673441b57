//! The state of the live view. Pure: readings and keys go in, rows to show come out.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::reading::{CallersOf, ProcessRow, Reading, Row};
use clockscope_model::callers::{Called, Callers};

/// Rates kept: one a second for a minute.
pub(crate) const HISTORY: usize = 60;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Select the row above.
    Up,
    /// Select the row below.
    Down,
    /// Select the first row.
    First,
    /// Select the last row.
    Last,
    /// Sort by the next column.
    Sort,
    /// Stand still, or go on.
    Pause,
    /// Count from now on.
    Reset,
    /// Only reads of clocks, or all calls.
    Clocks,
    /// Show nothing but the callers of the selected row.
    Open,
    /// Show the processes.
    Processes,
    /// Explain what is shown.
    Help,
    /// Show the table again.
    Back,
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// The calls, and the callers of the selected one below.
    #[default]
    Table,
    /// The callers of the selected row.
    Callers,
    /// The processes, and what each reads.
    Processes,
    /// What all this means.
    Help,
}

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Calls a second.
    #[default]
    Rate,
    /// Time a second.
    Time,
    /// Calls.
    Calls,
    /// Name.
    Name,
}

impl Order {
    /// What the screen calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Time => "time",
            Self::Calls => "calls",
            Self::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Rate => Self::Time,
            Self::Time => Self::Calls,
            Self::Calls => Self::Name,
            Self::Name => Self::Rate,
        }
    }
}

/// A row with its rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What is called.
    pub key: Called,
    /// Its name.
    pub name: String,
    /// Calls since the start, or since the last reset.
    pub calls: u64,
    /// Calls a second, lately.
    pub rate: f64,
    /// Time in it as a share of one processor's time, lately; `None` if no time is known.
    pub share: Option<f64>,
    /// Average time of a call, lately, in picoseconds; `None` if it is not known.
    pub average_ps: Option<u64>,
    /// Whether it reads a clock.
    pub is_clock: bool,
    /// Whether it is made to wait.
    pub waits: bool,
    /// Calls a second, of the last minute, the latest last.
    pub history: VecDeque<f64>,
}

/// A process with its rates.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessLine {
    /// Process id.
    pub pid: i32,
    /// What it calls itself.
    pub title: String,
    /// The container that it runs in, if any.
    pub container: Option<String>,
    /// Clock reads a second, lately; `None` if it was not looked at before.
    pub rate: Option<f64>,
    /// Its share of one processor's time, lately; `None` if it is not known.
    pub cpu: Option<f64>,
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Board {
    reading: Reading,
    lines: Vec<Line>,
    by_process: Vec<ProcessLine>,
    before_reset: HashMap<Called, u64>,
    order: Order,
    selected: Option<Called>,
    callers: CallersOf,
    view: View,
    only_clocks: bool,
    /// What stood there when it was paused.
    frozen: Option<Box<Board>>,
}

impl Board {
    /// Takes in what is known now.
    pub fn read(&mut self, reading: Reading) {
        let elapsed = reading.at.saturating_sub(self.reading.at).as_secs_f64();
        let mut lines: Vec<Line> = Vec::with_capacity(reading.rows.len());
        for row in &reading.rows {
            let before = self.reading.rows.iter().find(|before| before.key == row.key);
            let history =
                self.lines.iter_mut().find(|line| line.key == row.key).map(|l| &mut l.history);
            let mut history = history.map(std::mem::take).unwrap_or_default();
            let base = self.before_reset.get(&row.key).copied().unwrap_or(0);
            let line = line(row, before, base, elapsed);
            if elapsed > 0.0 {
                history.push_back(line.rate);
            }
            while history.len() > HISTORY {
                history.pop_front();
            }
            lines.push(Line { history, ..line });
        }
        self.lines = lines;
        self.by_process = by_process(&reading, &self.reading, elapsed);
        self.reading = reading;
        self.sort();
    }

    /// Takes in who makes the calls.
    pub fn set_callers(&mut self, callers: CallersOf) {
        if let Some(frozen) = &mut self.frozen {
            frozen.callers = callers.clone();
        }
        self.callers = callers;
    }

    /// Does what a key asks for.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Pause => {
                self.frozen = match self.frozen.take() {
                    // What was selected meanwhile stays selected.
                    Some(frozen) => {
                        (self.selected, self.order) = (frozen.selected, frozen.order);
                        (self.view, self.only_clocks) = (frozen.view, frozen.only_clocks);
                        self.sort();
                        None
                    }
                    None => Some(Box::new(self.clone())),
                };
            }
            Action::Reset => {
                self.frozen = None;
                let calls = |row: &Row| (row.key, row.calls);
                self.before_reset = self.reading.rows.iter().map(calls).collect();
                for line in &mut self.lines {
                    line.calls = 0;
                    line.history.clear();
                }
            }
            other => match &mut self.frozen {
                Some(frozen) => frozen.act(other),
                None => self.choose(other),
            },
        }
    }

    fn choose(&mut self, action: Action) {
        let last = self.lines().len().saturating_sub(1);
        let at = self.selected_index().unwrap_or(0);
        let to = match action {
            Action::Up => at.saturating_sub(1),
            Action::Down => (at + 1).min(last),
            Action::First => 0,
            Action::Last => last,
            Action::Sort => {
                self.order = self.order.next();
                return self.sort();
            }
            Action::Clocks => {
                self.only_clocks = !self.only_clocks;
                return;
            }
            Action::Open => return self.turn(View::Callers),
            Action::Processes => return self.turn(View::Processes),
            Action::Help => return self.turn(View::Help),
            Action::Back => {
                self.view = View::Table;
                return;
            }
            Action::Pause | Action::Reset => return,
        };
        self.selected = self.lines().get(to).map(|line| line.key);
    }

    /// To a view, or back from it.
    fn turn(&mut self, view: View) {
        self.view = if self.view == view { View::Table } else { view };
    }

    fn sort(&mut self) {
        let down = |a: f64, b: f64| b.total_cmp(&a);
        let order = self.order;
        self.lines.sort_by(|a, b| {
            let first = match order {
                Order::Rate => down(a.rate, b.rate),
                Order::Time => down(a.share.unwrap_or(-1.0), b.share.unwrap_or(-1.0)),
                Order::Calls => b.calls.cmp(&a.calls),
                Order::Name => a.name.cmp(&b.name),
            };
            first.then(b.calls.cmp(&a.calls)).then(a.key.cmp(&b.key))
        });
    }

    /// What is to be seen: what was there when it was paused, or what is there now.
    pub fn shown(&self) -> &Self {
        self.frozen.as_deref().unwrap_or(self)
    }

    /// Whether it stands still.
    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// The rows that are wanted, in their order.
    pub fn lines(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| line.is_clock || !self.only_clocks).collect()
    }

    /// What fills the screen.
    pub fn view(&self) -> View {
        self.view
    }

    /// Whether only reads of clocks are shown.
    pub fn only_clocks(&self) -> bool {
        self.only_clocks
    }

    /// By what they are sorted.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Since the start.
    pub fn at(&self) -> Duration {
        self.reading.at
    }

    /// The processes, that which reads clocks most often first.
    pub fn by_process(&self) -> &[ProcessLine] {
        &self.by_process
    }

    /// Processes counted now.
    pub fn processes(&self) -> u64 {
        self.reading.processes
    }

    /// Place of the selected row: the first one as long as none was chosen.
    pub(crate) fn selected_index(&self) -> Option<usize> {
        let lines = self.lines();
        let chosen = lines.iter().position(|line| Some(line.key) == self.selected);
        chosen.or((!lines.is_empty()).then_some(0))
    }

    /// The selected row.
    pub fn selected(&self) -> Option<&Line> {
        self.selected_index().and_then(|index| self.lines().get(index).copied())
    }

    /// Who makes the calls of the selected row; `None` if that is not known, or not yet.
    pub fn callers(&self) -> Option<&Callers> {
        let key = self.selected()?.key;
        (self.callers.key == Some(key)).then_some(&*self.callers.callers)
    }

    /// What the reads of clocks take, lately: the mean of one in picoseconds, and the share of one processor's
    /// time; of those whose time is known. `None` if none is.
    pub fn clock_cost(&self) -> Option<(f64, f64)> {
        let timed = || self.lines.iter().filter(|line| line.is_clock && line.share.is_some());
        let rate: f64 = timed().map(|line| line.rate).sum();
        let share: f64 = timed().filter_map(|line| line.share).sum();
        (rate > 0.0).then(|| (share / rate * 1e12, share))
    }

    /// Calls a second of the rows that `wanted` picks, over the last minute, the latest last.
    pub fn total(&self, wanted: impl Fn(&Line) -> bool) -> Vec<f64> {
        let mut total = vec![0.0; HISTORY];
        let mut longest = 0;
        for line in self.lines.iter().filter(|line| wanted(line)) {
            longest = longest.max(line.history.len());
            for (sum, rate) in total.iter_mut().rev().zip(line.history.iter().rev()) {
                *sum += rate;
            }
        }
        total.split_off(HISTORY - longest)
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates to be read by people")]
fn by_process(now: &Reading, before: &Reading, elapsed: f64) -> Vec<ProcessLine> {
    let line = |row: &ProcessRow| {
        // What was read before it was looked at says nothing of the last second.
        let before = before.by_process.iter().find(|before| before.pid == row.pid);
        let before = before.filter(|_| elapsed > 0.0);
        let new = before.map(|before| row.clock_reads.saturating_sub(before.clock_reads));
        let cpu = row.cpu.zip(before.and_then(|before| before.cpu));
        ProcessLine {
            pid: row.pid,
            title: row.title.clone(),
            container: row.container.clone(),
            rate: new.map(|new| new as f64 / elapsed),
            cpu: cpu.map(|(now, before)| now.saturating_sub(before).as_secs_f64() / elapsed),
        }
    };
    let mut lines: Vec<ProcessLine> = now.by_process.iter().map(line).collect();
    let rate = |line: &ProcessLine| line.rate.unwrap_or(-1.0);
    lines.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.pid.cmp(&b.pid)));
    lines
}

#[expect(clippy::cast_precision_loss, reason = "rates to be read by people")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an average time")]
fn line(row: &Row, before: Option<&Row>, base: u64, elapsed: f64) -> Line {
    let (calls_before, time_before) = before.map_or((0, 0), |row| (row.calls, row.time_ns));
    let new = row.calls.saturating_sub(calls_before);
    let rate = if elapsed > 0.0 { new as f64 / elapsed } else { 0.0 };
    let so_far = (row.time_ns > 0).then(|| row.time_ns as f64 / row.calls.max(1) as f64);
    // The time of vDSO calls is an estimate from samples: only its average means something.
    let average_ns = match row.key {
        Called::Syscall(_) if new > 0 && row.time_ns > 0 => {
            Some(row.time_ns.saturating_sub(time_before) as f64 / new as f64)
        }
        _ => so_far,
    };
    Line {
        key: row.key,
        name: row.name.clone(),
        calls: row.calls.saturating_sub(base),
        rate,
        share: average_ns.map(|average| average * rate / 1e9),
        average_ps: average_ns.map(|average| (average * 1e3) as u64),
        is_clock: row.is_clock,
        waits: row.waits,
        history: VecDeque::new(),
    }
}
