//! The results of benchmarks as one table: our figure, the baseline of the same run, and whether the goal is met.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

/// The goal for a ratio, or for a figure without a baseline.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Reported without a goal.
    None,
}

impl Goal {
    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::None => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least:.2}"),
            Self::AtMost(most) => format!("<= {most:.2}"),
            Self::None => String::new(),
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) bench: &'static str,
    pub(super) what: String,
    pub(super) ours: f64,
    /// If set, the goal applies to the ratio of `ours` to it; otherwise to `ours`.
    pub(super) baseline: Option<f64>,
    pub(super) goal: Goal,
}

impl Row {
    fn goal_value(&self) -> f64 {
        self.baseline.map_or(self.ours, |baseline| self.ours / baseline)
    }

    fn json(&self) -> Value {
        json!({
            "bench": self.bench, "what": self.what, "ours": self.ours, "baseline": self.baseline,
            "ratio": self.baseline.map(|baseline| self.ours / baseline), "goal": self.goal.text(),
            "met": self.goal.met(self.goal_value()),
        })
    }
}

/// The results of one benchmark.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// Text printed below the table.
    pub(super) notes: String,
    pub(super) details: Value,
}

impl Report {
    pub(super) fn json(&self) -> Value {
        json!({ "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(), "details": self.details })
    }
}

pub(super) fn table(rows: &[Row]) -> String {
    let widest = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let mut text =
        format!("{:<10}{:<widest$}{:>10}{:>10}{:>8}  {:<9}met\n", "bench", "what", "ours", "baseline", "ratio", "goal");
    for row in rows {
        let baseline = row.baseline.map(format_figure).unwrap_or_default();
        let ratio = row.baseline.map(|baseline| format!("{:.2}", row.ours / baseline)).unwrap_or_default();
        let met = row.goal.met(row.goal_value()).map_or("", |met| if met { "yes" } else { "NO" });
        let (bench, what, ours, goal) = (row.bench, &row.what, format_figure(row.ours), row.goal.text());
        let _ = writeln!(text, "{bench:<10}{what:<widest$}{ours:>10}{baseline:>10}{ratio:>8}  {goal:<9}{met}");
    }
    text
}

/// The CPU time of each process per payment, and its memory at the end.
pub(super) fn processes(cpu: &BTreeMap<String, f64>, memory: &BTreeMap<String, f64>) -> String {
    let mut text = format!("{:<10}{:>17}{:>13}\n", "process", "CPU ms/payment", "memory MiB");
    for (name, seconds) in cpu {
        let mib = memory.get(name).map(|mib| format!("{mib:.0}")).unwrap_or_default();
        let _ = writeln!(text, "{name:<10}{:>17.2}{mib:>13}", seconds * 1000.0);
    }
    let _ = writeln!(
        text,
        "{:<10}{:>17.2}{:>13.0}",
        "all",
        cpu.values().sum::<f64>() * 1000.0,
        memory.values().sum::<f64>()
    );
    text
}

/// Formats a figure with a useful number of digits.
fn format_figure(value: f64) -> String {
    match value {
        large if large >= 100.0 => format!("{large:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    }
}
