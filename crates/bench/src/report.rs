//! Reports: medians over rounds, ratios, and which requirements are met.

pub mod before;
mod checks;
pub mod document;
mod required;
mod tables;

use std::path::PathBuf;

use serde::Deserialize;

use crate::machine::{Figure, Host};
use crate::result::{Line, thousands};
use crate::tpch::TpchLine;

/// The target that is compared with the others.
const OURS: &str = "freshet";

/// All results.
#[derive(Default)]
pub struct Results {
    lines: Vec<Line>,
    hosts: Vec<Host>,
    machine: Vec<Figure>,
    tpch: Vec<TpchLine>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Any {
    Line(Box<Line>),
    Host(Host),
    Machine(Figure),
    Tpch(TpchLine),
}

impl Results {
    pub fn read(paths: &[PathBuf]) -> Result<Self, String> {
        let mut all = String::new();
        for path in paths {
            let text = std::fs::read_to_string(path);
            all.push_str(&text.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        Self::parse(&all)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut results = Self::default();
        for (index, line) in text.lines().enumerate() {
            let any: Result<Any, _> = serde_json::from_str(line);
            match any.map_err(|error| format!("line {}: {error}", index + 1))? {
                Any::Line(line) => results.lines.push(*line),
                Any::Host(host) => results.hosts.push(host),
                Any::Machine(figure) => results.machine.push(figure),
                Any::Tpch(line) => results.tpch.push(line),
            }
        }
        Ok(results)
    }

    /// The names of the points, in the order of their runs.
    pub fn points(&self) -> Vec<&str> {
        in_order(self.lines.iter().map(|line| line.point.as_str()))
    }

    /// The names of the targets that ran a point.
    pub fn targets(&self, point: &str) -> Vec<&str> {
        let of_point = self.lines.iter().filter(|line| line.point == point);
        in_order(of_point.map(|line| line.target.as_str()))
    }

    fn of<'a>(&'a self, point: &'a str, target: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.point == point && line.target == target)
    }

    /// The median over rounds of a value of the runs of a point on a target.
    pub fn median(&self, point: &str, target: &str, of: impl Fn(&Line) -> f64) -> Option<f64> {
        median(self.of(point, target).map(of).collect())
    }

    /// The median over rounds of a point's rows per second.
    pub fn rate(&self, point: &str, target: &str) -> Option<f64> {
        self.median(point, target, |line| line.rows_per_second)
    }

    /// The median over rounds of the ratio of two targets in the same round.
    pub fn ratio(&self, point: &str, target: &str, to: &str) -> Option<f64> {
        let ratios = self.of(point, target).filter_map(|line| {
            let same = |other: &&Line| (other.run, other.round) == (line.run, line.round);
            let other = self.of(point, to).find(same)?;
            (other.rows_per_second > 0.0).then(|| line.rows_per_second / other.rows_per_second)
        });
        median(ratios.collect())
    }

    /// The median of the machine's measurements with this name, in milliseconds.
    pub fn machine_ms(&self, name: &str) -> Option<f64> {
        let figures = self.machine.iter().filter(|figure| figure.machine == name);
        median(figures.map(|figure| figure.p50_ms).collect())
    }

    /// The names of the machine's measurements, in the order in which they were taken.
    fn machine_figures(&self) -> Vec<&str> {
        in_order(self.machine.iter().map(|figure| figure.machine.as_str()))
    }

    fn tpch_seconds(&self, step: &str, target: &str) -> Option<f64> {
        let lines = self.tpch.iter().filter(|line| line.tpch == step && line.target == target);
        lines.map(|line| line.seconds).min_by(f64::total_cmp)
    }

    /// The durations of the 22 queries in seconds; `None` unless all were run.
    fn queries(&self, target: &str) -> Option<Vec<f64>> {
        (1..=22).map(|number| self.tpch_seconds(&format!("q{number}"), target)).collect()
    }

    /// Prints the medians and the requirements.
    pub fn print(&self) {
        for figure in &self.machine {
            let per_second = thousands(figure.per_second);
            println!(
                "machine: {:46} {per_second:>10}/s  p50 {:.3} ms",
                figure.machine, figure.p50_ms
            );
        }
        println!("\n{}\n{}", tables::all(self), tables::tpch(self));
        let wrong: Vec<&Line> = self.lines.iter().filter(|line| line.is_wrong()).collect();
        for line in &wrong {
            println!("WRONG {} round {}: {}", line.target, line.round, line.row());
        }
        println!("{} of {} runs with rows missing or too many\n", wrong.len(), self.lines.len());
        for check in checks::all(self) {
            println!("{check}");
        }
        println!("\n{}", checks::summary(self));
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn sum(values: Vec<f64>) -> f64 {
    values.iter().sum()
}

fn geometric_mean(values: Vec<f64>) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests;
