//! One kind of plot for everything: categories on the x axis, and for each of a few
//! series a point with a range.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::peer::Kind;

/// Low end, value, high end.
pub(crate) type Point = (f64, f64, f64);

/// The points of one peer; one place per category.
pub(crate) struct Series {
    /// Decides the colour.
    pub(crate) peer: Kind,
    /// In the legend.
    pub(crate) title: String,
    /// Empty places are left out.
    pub(crate) points: Vec<Option<Point>>,
}

/// A plot.
pub(crate) struct Plot {
    /// Above it.
    pub(crate) title: String,
    /// Beside the y axis, with the unit.
    pub(crate) y_label: String,
    /// Labels of the x axis.
    pub(crate) categories: Vec<String>,
    /// What is drawn.
    pub(crate) series: Vec<Series>,
    /// Logarithmic y axis; else one that begins at zero.
    pub(crate) logarithmic: bool,
}

const SIZE: (u32, u32) = (900, 420);

impl Plot {
    /// Whether there is anything to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.points().next().is_none()
    }

    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.series
            .iter()
            .flat_map(|series| series.points.iter().flatten().copied())
    }

    /// Writes it as SVG.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        let high = self.points().map(|point| point.2).fold(f64::MIN, f64::max);
        let low = self.points().map(|point| point.0).fold(f64::MAX, f64::min);
        let drawn = if self.logarithmic {
            self.draw(&area, ((low * 0.6).max(1e-4)..high * 4.0).log_scale())
        } else {
            self.draw(&area, 0.0..high * 1.35)
        };
        drawn.map_err(|error| anyhow!("drawing {}: {error}", path.display()))?;
        area.present()
            .map_err(|error| anyhow!("writing {}: {error}", path.display()))
    }

    fn draw<Y>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        y_axis: Y,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        area.fill(&WHITE)?;
        let width = self.categories.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..width, y_axis)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(self.categories.len() * 2 + 1)
            .x_label_formatter(&|x| self.label_at(*x))
            .y_desc(&self.y_label)
            .light_line_style(TRANSPARENT)
            .y_labels(if self.logarithmic { 5 } else { 8 })
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let color = color(series.peer);
            let share = (index as f64 + 1.0) / (self.series.len() as f64 + 1.0);
            let marks = series
                .points
                .iter()
                .enumerate()
                .filter_map(|(category, point)| {
                    let (low, value, high) = (*point)?;
                    let x = category as f64 + 0.15 + 0.7 * share;
                    Some(ErrorBar::new_vertical(
                        x,
                        low,
                        value,
                        high,
                        color.filled(),
                        7,
                    ))
                });
            chart
                .draw_series(marks)?
                .label(&series.title)
                .legend(move |(x, y)| Circle::new((x + 10, y), 4, color.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        Ok(())
    }

    /// The label of the category whose middle is at `x`.
    fn label_at(&self, x: f64) -> String {
        let middle = (x.fract() - 0.5).abs() < 0.01;
        let label = self.categories.get(x as usize).filter(|_| middle);
        label.cloned().unwrap_or_default()
    }
}

/// Colours that also people with colour-blindness tell apart (Okabe and Ito).
fn color(peer: Kind) -> RGBColor {
    match peer {
        Kind::Direct => RGBColor(0, 0, 0),
        Kind::Weft => RGBColor(0, 114, 178),
        Kind::WeftKubernetes => RGBColor(86, 180, 233),
        Kind::Iptables => RGBColor(213, 94, 0),
        Kind::Nftables => RGBColor(0, 158, 115),
    }
}

fn short(value: f64) -> String {
    let digits = if value >= 10.0 || value == 0.0 {
        0
    } else if value >= 0.1 {
        1
    } else {
        3
    };
    format!("{value:.digits$}")
}
