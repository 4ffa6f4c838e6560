//! Writes tables into marked sections of a document, so that numbers are not copied by hand.
//!
//! A section begins with a line `<!-- figures: NAME -->` and ends with `<!-- end of figures -->`;
//! its content is replaced. [`section`] has the names.

use std::path::Path;

use super::{OURS, Results, checks, tables};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// Updates the sections of a file.
pub fn fill_file(results: &Results, path: &Path) -> Result<(), String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(at)?;
    let filled = fill(results, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    std::fs::write(path, filled).map_err(at)
}

/// Updates the sections of a text; those that were not measured are kept.
pub(super) fn fill(results: &Results, text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let mut old = String::new();
        loop {
            match lines.next() {
                Some(END) => break,
                Some(line) => old.extend([line, "\n"]),
                None => return Err(format!("the section `{name}` has no end")),
            }
        }
        match section(results, name)? {
            Some(new) => out.push_str(&format!("\n{}\n\n", new.trim())),
            None => out.push_str(&old),
        }
        out.push_str(END);
        out.push('\n');
    }
    Ok(out)
}

/// The content of a section; `None` if it was not measured.
fn section(results: &Results, name: &str) -> Result<Option<String>, String> {
    let modes = [checks::MODE_BASE, "freshet-sync"];
    let is_mode = |point: &&str| results.targets(point).iter().any(|name| modes.contains(name));
    let beside = |points: Vec<&str>| {
        let table = (!points.is_empty()).then(|| tables::beside(results, &points))?;
        Some(format!("{table}\n{}", tables::cost(results, &points)))
    };
    let starting = |prefix: &str| -> Vec<&str> {
        let plain = |point: &&str| !point.contains(" + ") && !point.ends_with(" long");
        let points = results.points().into_iter().filter(|point| point.starts_with(prefix));
        points.filter(plain).collect()
    };
    Ok(match name {
        "machine" => Some(tables::machine(results)).filter(|_| !results.machine.is_empty()),
        "required" => Some(checks::markdown(results)).filter(|_| !results.lines.is_empty()),
        "W1" | "W2" | "W3" | "W4" | "W5" | "W9" => beside(starting(&format!("{name} "))),
        "W7" => Some(tables::tpch(results)).filter(|text| !text.is_empty()),
        "modes" => beside(results.points().into_iter().filter(is_mode).collect()),
        "W10" => Some(tables::forms(results, &starting("W10 "))).filter(|text| !text.is_empty()),
        "alters" => {
            let mut points = results.points();
            points.retain(|point| point.ends_with(" alters"));
            (!points.is_empty()).then(|| tables::alters(results, &points))
        }
        "queries" => {
            let points = results.points();
            beside(points.into_iter().filter(|point| point.ends_with(" queries")).collect())
        }
        "long" => {
            let mut points = results.points();
            points.retain(|point| point.ends_with(" long"));
            let measured = points.iter().any(|point| results.rate(point, OURS).is_some());
            let cost = tables::cost(results, &points);
            measured.then(|| format!("{}\n{cost}", tables::tenths(results, &points)))
        }
        "sweeps" => beside(starting("sweep ")),
        _ => return Err(format!("there is no section `{name}`")),
    })
}
