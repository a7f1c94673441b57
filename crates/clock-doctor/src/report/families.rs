//! Metrics in the text format of Prometheus, as node_exporter's textfile collector reads it.
//!
//! This is the older text format, not OpenMetrics: there is no type `info`, no `# EOF`, and a counter's `_total` is
//! part of its name.

/// A metric: its name, its meaning, and its values by labels.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    /// The lines of the values.
    samples: String,
}

impl Family {
    /// A metric without values.
    pub(super) fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: "gauge", samples: String::new() }
    }

    pub(super) fn counter(name: &'static str, help: &'static str) -> Family {
        Family { kind: "counter", ..Family::gauge(name, help) }
    }

    /// Adds a value. Whole numbers have no fraction.
    pub(super) fn with(mut self, labels: &[(&str, &str)], value: f64) -> Family {
        let escaped =
            |text: &str| text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
        let labels: Vec<String> =
            labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escaped(text))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let value = if value.fract() == 0.0 { value.to_string() } else { format!("{value:?}") };
        self.samples += &format!("{}{labels} {value}\n", self.name);
        self
    }

    /// Adds a value, if there is one.
    pub(super) fn with_some(self, labels: &[(&str, &str)], value: Option<f64>) -> Family {
        value.into_iter().fold(self, |family, value| family.with(labels, value))
    }
}

/// The metrics that have values, as text.
pub(super) fn render(families: &[Family]) -> String {
    let known = families.iter().filter(|family| !family.samples.is_empty());
    let text = |Family { name, help, kind, samples }: &Family| {
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
    };
    known.map(text).collect()
}
