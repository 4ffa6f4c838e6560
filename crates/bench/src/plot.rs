//! Plots: rows per second by connections or by the size of a request.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::prelude::*;

use crate::report::Results;

const PIXELS: (u32, u32) = (900, 480);
const COLOURS: [RGBColor; 7] = [
    RGBColor(200, 30, 30),
    RGBColor(30, 90, 180),
    RGBColor(30, 140, 60),
    RGBColor(150, 90, 180),
    RGBColor(220, 130, 20),
    RGBColor(90, 90, 90),
    RGBColor(20, 150, 160),
];

/// The curves of a plot: by target, rows per second over x.
type Curves = BTreeMap<String, Vec<(f64, f64)>>;

/// Draws a plot for every workload with several points.
pub fn draw(results: &Results, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut pictures: BTreeMap<(String, &str), Curves> = BTreeMap::new();
    for point in results.points() {
        if let Some((what, value)) = sweep(point) {
            let curves = pictures.entry((format!("sweep of {what}"), what)).or_default();
            for target in results.targets(point) {
                let rate = results.rate(point, target).unwrap_or(0.0);
                curves.entry(target.to_owned()).or_default().push((value, rate));
            }
        }
        let Some((series, size, connections)) = split(point) else { continue };
        let by_connections = (format!("{series} {size}"), "connections");
        let by_size = (format!("{series} at {connections} connections"), "request");
        for (picture, x) in [(by_connections, connections), (by_size, number(size))] {
            for target in results.targets(point) {
                let rate = results.rate(point, target).unwrap_or(0.0);
                let curves = pictures.entry(picture.clone()).or_default();
                curves.entry(target.to_owned()).or_default().push((x, rate));
            }
        }
    }
    for ((title, x), curves) in pictures {
        if curves.values().any(|points| points.len() > 1) {
            let path = folder.join(format!("{}.svg", title.to_lowercase().replace(' ', "-")));
            picture(&path, &title, x, curves).map_err(|error| format!("{title}: {error}"))?;
        }
    }
    Ok(())
}

/// Parses `W4 sbtest1 text 1000 x 16` into workload and mode, size and connections.
fn split(point: &str) -> Option<(&str, &str, f64)> {
    let (before, connections) = point.split_once(" x ")?;
    let (series, size) = before.rsplit_once(' ')?;
    Some((series, size, connections.parse().ok()?))
}

/// Parses `sweep columns 100` into parameter and value.
fn sweep(point: &str) -> Option<(&str, f64)> {
    let (what, value) = point.strip_prefix("sweep ")?.split_once(' ')?;
    Some((what, value.parse().ok()?))
}

/// `100KB` and `1MB` in bytes, other sizes in rows.
fn number(size: &str) -> f64 {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &size[digits.len()..] {
        "KB" => 1e3,
        "MB" => 1e6,
        _ => 1.0,
    };
    digits.parse::<f64>().unwrap_or(0.0) * factor
}

fn picture(
    path: &Path,
    title: &str,
    x: &str,
    mut curves: Curves,
) -> Result<(), Box<dyn std::error::Error>> {
    curves.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let all = || curves.values().flatten();
    let x_min = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let x_max = all().map(|point| point.0).fold(0.0, f64::max);
    let y_max = all().map(|point| point.1).fold(0.0, f64::max);
    let root = SVGBackend::new(path, PIXELS).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d((x_min..x_max * 1.01).log_scale(), 0.0..y_max * 1.05)?;
    chart.configure_mesh().x_desc(x).y_desc("rows a second").draw()?;
    for ((target, points), colour) in curves.into_iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        let series = LineSeries::new(points, style).point_size(3);
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], style);
        chart.draw_series(series)?.label(target).legend(key);
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_points_are_read_back() {
        assert_eq!(split("W4 sbtest1 text 1000 x 16"), Some(("W4 sbtest1 text", "1000", 16.0)));
        assert_eq!(sweep("sweep tables 100"), Some(("tables", 100.0)));
        assert_eq!(split("W9 ints text 1 x 20 1000 tables"), None);
        assert_eq!((number("1000"), number("10KB"), number("10MB")), (1e3, 1e4, 1e7));
    }
}
