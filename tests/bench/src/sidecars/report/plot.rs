//! A bar for each family: requests per second, or, where these are given, latency.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::sidecars::measure::{Case, Lane, Turn};
use crate::stats::Spread;

/// Colour and quantile, by name.
type Marks = [(&'static str, RGBColor, fn(&Turn) -> f64); 2];

/// Of Okabe and Ito, as in the other plots.
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(213, 94, 0);
const WIDTH: u32 = 900;
const ROW: u32 = 44;

/// Writes it as SVG.
pub(super) fn draw(case: &Case, title: &str, path: &Path) -> Result<()> {
    let marks: Marks = [
        ("median", BLUE, |t| t.p50_us),
        ("99th percentile", ORANGE, |t| t.p99_us),
    ];
    let drawn = match case.rate {
        Some(_) => latencies(case, title, path, marks),
        None => rates(case, title, path),
    };
    drawn.map_err(|error| anyhow!("drawing {}: {error}", path.display()))
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn rates(case: &Case, title: &str, path: &Path) -> Drawn {
    let of = |lane: &Lane| Spread::of(lane.turns.iter().map(|turn| turn.per_second));
    let most = case
        .lanes
        .iter()
        .filter_map(of)
        .map(|s| s.upper)
        .fold(1.0, f64::max);
    let area =
        SVGBackend::new(path, (WIDTH, ROW * case.lanes.len() as u32 + 110)).into_drawing_area();
    area.fill(&WHITE)?;
    let rows = case.lanes.len();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(210)
        .build_cartesian_2d(0.0..most * 1.08, 0.0..rows as f64)?;
    let label = |y: &f64| name(case, *y);
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(rows * 2 + 1)
        .y_label_formatter(&label)
        .x_desc("requests per second: median and quartiles")
        .draw()?;
    for (index, lane) in case.lanes.iter().enumerate() {
        let Some(spread) = of(lane) else { continue };
        let y = (rows - 1 - index) as f64;
        let color = if lane.family.is_weft() {
            BLUE
        } else {
            RGBColor(130, 130, 130)
        };
        chart.draw_series([Rectangle::new(
            [(0.0, y + 0.2), (spread.median, y + 0.8)],
            color.filled(),
        )])?;
        chart.draw_series([ErrorBar::new_horizontal(
            spread.lower,
            spread.median,
            spread.upper,
            y + 0.5,
            BLACK.filled(),
            8,
        )])?;
    }
    Ok(area.present()?)
}

fn latencies(case: &Case, title: &str, path: &Path, marks: Marks) -> Drawn {
    let of = |lane: &Lane, field: fn(&Turn) -> f64| Spread::of(lane.turns.iter().map(field));
    let ends = |lane: &Lane| marks.map(|(_, _, field)| of(lane, field));
    let all: Vec<Spread> = case.lanes.iter().flat_map(ends).flatten().collect();
    let most = all.iter().map(|s| s.upper).fold(1.0, f64::max);
    let least = all.iter().map(|s| s.lower).fold(most, f64::min);
    let area =
        SVGBackend::new(path, (WIDTH, ROW * case.lanes.len() as u32 + 110)).into_drawing_area();
    area.fill(&WHITE)?;
    let rows = case.lanes.len();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(210)
        .build_cartesian_2d((least * 0.8..most * 1.3).log_scale(), 0.0..rows as f64)?;
    let label = |y: &f64| name(case, *y);
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(rows * 2 + 1)
        .y_label_formatter(&label)
        .x_desc("microseconds from the time a request is due: median and quartiles")
        .draw()?;
    for (title, color, field) in marks {
        let points = case.lanes.iter().enumerate().filter_map(|(index, lane)| {
            let spread = of(lane, field)?;
            let y = (rows - 1 - index) as f64 + 0.5;
            Some(ErrorBar::new_horizontal(
                spread.lower,
                spread.median,
                spread.upper,
                y,
                color.filled(),
                8,
            ))
        });
        chart
            .draw_series(points)?
            .label(title)
            .legend(move |(x, y)| Circle::new((x + 10, y), 4, color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(area.present()?)
}

/// The family whose row has its middle at `y`; rows go from top to bottom.
fn name(case: &Case, y: f64) -> String {
    let is_middle = (y.fract() - 0.5).abs() < 0.01;
    let row = case
        .lanes
        .len()
        .checked_sub(1 + y as usize)
        .filter(|_| is_middle);
    let lane = row.and_then(|row| case.lanes.get(row));
    lane.map_or_else(String::new, |lane| lane.family.title(case.far).to_owned())
}
