//! Metrics in the text format of Prometheus, as node_exporter's textfile collector reads it.
//!
//! This is the older text format, not OpenMetrics: there is no type `info`, no `# EOF`, and a counter's `_total` is
//! part of its name. The families are encoded accordingly.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// A metric: its name, its meaning, and its values by labels.
#[derive(Clone, Debug)]
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

impl Family {
    /// A metric without values.
    #[must_use]
    pub(super) fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { name, help, is_counter: false, samples: Vec::new() }
    }

    pub(super) fn counter(name: &'static str, help: &'static str) -> Family {
        Family { is_counter: true, ..Family::gauge(name, help) }
    }

    /// Adds a value.
    #[must_use]
    pub(super) fn with(mut self, labels: &[(&'static str, &str)], value: f64) -> Family {
        let labels = labels.iter().map(|&(key, value)| (key, value.to_owned())).collect();
        self.samples.push((labels, value));
        self
    }

    /// Adds a value, if there is one.
    #[must_use]
    pub(super) fn with_some(self, labels: &[(&'static str, &str)], value: Option<f64>) -> Family {
        match value {
            Some(value) => self.with(labels, value),
            None => self,
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        // Both kinds are encoded as gauges: the counter's encoder would append a second `_total`.
        let kind = if self.is_counter { MetricType::Counter } else { MetricType::Gauge };
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for (labels, value) in &self.samples {
            match labels.as_slice() {
                [] => write(&mut metric, *value)?,
                labels => write(&mut metric.encode_family(&labels)?, *value)?,
            }
        }
        Ok(())
    }
}

/// Writes whole numbers without a fraction.
fn write(metric: &mut MetricEncoder, value: f64) -> fmt::Result {
    const WHOLE_MAX: f64 = 9e15;
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        let whole = value as i64;
        metric.encode_gauge(&whole)
    } else {
        metric.encode_gauge(&value)
    }
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// The metrics that have values, as text.
///
/// # Errors
///
/// None for any values.
pub(super) fn render(mut families: Vec<Family>) -> Result<String, fmt::Error> {
    families.retain(|family| !family.samples.is_empty());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut out = String::new();
    text::encode_registry(&mut out, &registry)?;
    Ok(out)
}
