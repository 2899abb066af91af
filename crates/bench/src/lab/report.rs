//! Figures side by side, for people or as JSON.

use serde_json::{Map, Value, json};

/// One line of the comparison.
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    pub cairn: Option<f64>,
    pub postgres: Option<f64>,
    /// What it should be, in words.
    pub goal: &'static str,
}

pub struct Report {
    scenario: String,
    settings: Vec<(String, String)>,
    /// Settings that were printed.
    printed: usize,
    figures: Vec<Figure>,
    /// By server: lines over time.
    series: Vec<(String, Vec<Map<String, Value>>)>,
    json: bool,
}

/// `a / b`; `None` where that means nothing.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    (b != 0.0 && a.is_finite() && b.is_finite()).then(|| a / b)
}

/// 0 if there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    super::percentile(&values, 0.5)
}

impl Report {
    pub fn new(scenario: &str, json: bool) -> Report {
        Report {
            scenario: scenario.to_owned(),
            settings: Vec::new(),
            printed: 0,
            figures: Vec::new(),
            series: Vec::new(),
            json,
        }
    }

    /// A later value replaces an earlier one of the same name.
    pub fn setting(&mut self, name: &str, value: &str) {
        match self.settings.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.settings.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Prints the settings that came since the last call.
    pub fn print_settings(&mut self) {
        if self.printed == 0 {
            eprintln!("{}:", self.scenario);
        }
        for (name, value) in self.settings.iter().skip(self.printed) {
            eprintln!("  {name}: {value}");
        }
        self.printed = self.settings.len();
    }

    /// A line of a server's course over time; printed at once.
    pub fn line(&mut self, server: &str, values: &[(&'static str, f64)]) {
        let new = self.series.iter().all(|(name, _)| name != server);
        if new {
            self.series.push((server.to_owned(), Vec::new()));
        }
        let object = values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        if let Some((_, lines)) = self.series.iter_mut().find(|(name, _)| name == server) {
            lines.push(object);
        }
        if !self.json {
            if new {
                let names: Vec<String> = values.iter().map(|(name, _)| format!("{name:>12}")).collect();
                println!("\n{server}\n{}", names.join(" "));
            }
            let values: Vec<String> =
                values.iter().map(|(_, value)| format!("{:>12}", plain(*value))).collect();
            println!("{}", values.join(" "));
        }
    }

    pub fn figure(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        values: &[Option<f64>],
        goal: &'static str,
    ) {
        let value = |at: usize| values.get(at).copied().flatten();
        self.figures.push(Figure { name: name.into(), unit, cairn: value(0), postgres: value(1), goal });
    }

    pub fn print(&self) {
        if self.json {
            println!("{}", self.to_json());
            return;
        }
        println!(
            "\n{:<52} {:>12} {:>12} {:>8}  goal for Cairn",
            self.scenario, "Cairn", "PostgreSQL", "ratio"
        );
        for figure in &self.figures {
            let optional = |value: Option<f64>| value.map_or("-".to_owned(), plain);
            let both = figure.cairn.zip(figure.postgres);
            let ratio = both.and_then(|(cairn, postgres)| ratio(cairn, postgres));
            let name = match figure.unit {
                "" => figure.name.clone(),
                unit => format!("{}, {unit}", figure.name),
            };
            println!(
                "{name:<52} {:>12} {:>12} {:>8}  {}",
                optional(figure.cairn),
                optional(figure.postgres),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
                figure.goal
            );
        }
    }

    fn to_json(&self) -> Value {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figure| {
                json!({
                    "name": figure.name, "unit": figure.unit, "cairn": figure.cairn,
                    "postgres": figure.postgres,
                    "ratio": figure.cairn.zip(figure.postgres).and_then(|(a, b)| ratio(a, b)),
                    "goal": figure.goal,
                })
            })
            .collect();
        let settings: Map<String, Value> =
            self.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let series: Map<String, Value> =
            self.series.iter().map(|(name, lines)| (name.clone(), json!(lines))).collect();
        json!({ "scenario": self.scenario, "settings": settings, "figures": figures, "series": series })
    }
}

/// As many digits as matter.
pub fn plain(value: f64) -> String {
    match value.abs() {
        _ if value == value.trunc() && value.abs() < 1e12 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
