//! HTML pages of reports: the sentences beside the report's JSON, the title, and the text for readers without
//! script. The page of a saved report and that of the command itself are made in the same way, from the JSON.

use anyhow::{Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::callers::sites::sites;
use crate::options::{CallersOptions, TextOptions};
use crate::{
    answers, bench, costs, counter_reads, declines, latency, overhead, survey, text, wrongness,
};
use clockscope_model::bench::BenchReport;
use clockscope_model::host::HostState;
use clockscope_model::survey::SurveyReport;
use clockscope_model::trace::{Missing, ProcessDetail, TraceReport};
use clockscope_model::wrongness::WrongnessReport;
use clockscope_page::{Document, Kind};
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_middle;

/// Limit for the command in the title, in characters.
const TITLE_MAX: usize = 60;
/// Limit for the places that read a clock on a page; the JSON has all stacks.
const SITES_MAX: usize = 40;

/// A report that has a page.
pub trait Page: Serialize + DeserializeOwned {
    /// The command that makes reports of this type.
    const KIND: Kind;

    /// Title, text and sentences of the page beside the report. `host` is used if the report has no host.
    fn parts(&self, host: Option<&HostState>) -> Parts;
}

/// Title, text and sentences of a page beside the report.
pub struct Parts {
    title: String,
    beside: Value,
    /// The text for readers without script.
    text: String,
}

/// The page of a report that was just made; `host` is this host, if the report has none.
///
/// # Errors
///
/// None that the models can cause; otherwise an error of `serde_json`.
pub fn of_report<R: Page>(report: &R, host: Option<&HostState>) -> Result<String> {
    let document = Document { kind: R::KIND, json: serde_json::to_string(report)? };
    Ok(page(&document, report, host))
}

/// The page of a saved report; `host` is its host, if that is known and not in the report.
///
/// # Errors
///
/// When a field of the report is missing or of the wrong kind.
pub fn of_document(document: &Document, host: Option<&HostState>) -> Result<String> {
    Ok(match document.kind {
        Kind::Trace => page::<TraceReport>(document, &model(document)?, host),
        Kind::Bench => page::<BenchReport>(document, &model(document)?, host),
        Kind::Wrongness => page::<WrongnessReport>(document, &model(document)?, host),
        Kind::Survey => page::<SurveyReport>(document, &model(document)?, host),
    })
}

fn page<R: Page>(document: &Document, report: &R, host: Option<&HostState>) -> String {
    let Parts { title, beside, text } = report.parts(host);
    clockscope_page::page(document, &title, &beside, &text)
}

pub(crate) fn model<R: Page>(document: &Document) -> Result<R> {
    serde_json::from_slice(document.json.as_bytes()).map_err(|error| {
        let name = R::KIND.name();
        anyhow!(printable(&error.to_string()))
            .context(format!("not as clockscope {name} prints it"))
    })
}

impl Page for TraceReport {
    const KIND: Kind = Kind::Trace;

    fn parts(&self, host: Option<&HostState>) -> Parts {
        let title = match cut_middle(&text::traced(self), TITLE_MAX).as_str() {
            text::UNNAMED => "How often the clock is read".to_owned(),
            command => format!("How often {command} reads the clock"),
        };
        let told_apart = |process: &ProcessDetail| process.syscall_calls.is_some();
        let defaults = TextOptions::default();
        let options = TextOptions {
            all: true,
            latency: true,
            callers: CallersOptions { whole: true, ..defaults.callers },
            per_process: self.processes_detail.iter().any(told_apart),
            ..defaults
        };
        Parts {
            title,
            beside: beside_trace(self, self.host.as_ref().or(host)),
            text: text::render(self, &options),
        }
    }
}

impl Page for BenchReport {
    const KIND: Kind = Kind::Bench;

    fn parts(&self, _host: Option<&HostState>) -> Parts {
        let has_clocks = self.paths.iter().any(|path| path.name.clock.is_some());
        let what = if has_clocks { "clock reads" } else { "system calls" };
        Parts {
            title: format!("What {what} cost{}", on_cpu(&self.host)),
            beside: json!({}),
            text: bench::text::render(self),
        }
    }
}

impl Page for WrongnessReport {
    const KIND: Kind = Kind::Wrongness;

    fn parts(&self, _host: Option<&HostState>) -> Parts {
        Parts {
            title: format!("How wrong each clock is{}", on_cpu(&self.host)),
            beside: json!({}),
            text: wrongness::text::render(self),
        }
    }
}

impl Page for SurveyReport {
    const KIND: Kind = Kind::Survey;

    fn parts(&self, _host: Option<&HostState>) -> Parts {
        let mut facts = vec![("Clock reads", survey::text::sum(self))];
        facts.extend(survey::text::facts(self));
        Parts {
            title: "Who reads the clock on this host".to_owned(),
            beside: json!({
                "sampled": survey::text::sampled(self),
                "facts": facts,
                "remarks": survey::text::remarks(self),
            }),
            text: survey::text::render(self, true),
        }
    }
}

/// The sentences that the text report has, too.
fn beside_trace(report: &TraceReport, host: Option<&HostState>) -> Value {
    let reads = &report.clock_reads;
    let same_tick = reads.same_tick_share.filter(|share| share.is_finite());
    let same_tick = same_tick.map(|share| answers::same_tick(share, reads.tick_ns));
    let declines_of = |is_wanted: fn(Missing) -> bool| {
        let rows = report.callers.iter().flat_map(|callers| &callers.declines);
        let rows: Vec<_> = rows.filter(|row| is_wanted(row.what)).cloned().collect();
        declines::sentences(&rows)
    };
    let mut not_named = declines_of(|what| what == Missing::Names);
    not_named.extend(report.callers.iter().flat_map(|callers| callers.stripped.clone()));
    let counters = (report.counters.is_some(), report.counter_doubt.as_deref());
    let counters = counter_reads::sentence(&report.counter_reads, counters, false);
    let counters = counters.map(|files| format!("Reads of the CPU's counter by {files}"));
    let counted = counter_reads::counted(report, false);
    let counted = counted.map(|reads| {
        let files = counters.clone().map(|files| format!(". {files}")).unwrap_or_default();
        format!("Counter: {reads}{files}")
    });
    let mut not_counted = declines::sentences(&report.declines);
    not_counted.extend(counters.filter(|_| counted.is_none()));
    let reads = [Some(format!("Clock: {}", answers::cost(report))), counted];
    let sites = sites(report);
    let more_sites = sites.len().saturating_sub(SITES_MAX);
    let sites = sites.iter().take(SITES_MAX).map(|site| {
        let advice: Vec<String> = site.advice.iter().map(|advice| advice.sentence()).collect();
        json!({
            "function": site.function, "place": site.place, "called": site.called,
            "per_second": site.per_second, "share": site.share, "time_ns": site.time_ns, "advice": advice,
        })
    });
    json!({
        "host": host,
        "reads": reads.into_iter().flatten().collect::<Vec<_>>(),
        "same_tick": same_tick.as_slice(),
        "slow": latency::slow_clause(report).as_slice(),
        "in_user_space": answers::is_answered_in_user_space(report),
        "cpu_on_hpet_ns": costs::whole_on(report, report.clock_reads.typical_hpet_ns),
        "cpu_on_acpi_pm_ns": costs::whole_on(report, report.clock_reads.typical_acpi_pm_ns),
        "not_counted": not_counted,
        "sites": sites.collect::<Vec<_>>(),
        "more_sites": more_sites,
        "not_sampled": declines_of(|what| what != Missing::Names),
        "not_named": not_named,
        "times": overhead::how_timed(report),
        "cost": overhead::what_it_cost(report),
    })
}

fn on_cpu(host: &HostState) -> String {
    host.cpu_model.as_ref().map(|cpu| format!(" on {cpu}")).unwrap_or_default()
}
