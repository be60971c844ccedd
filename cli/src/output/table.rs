//! Aligned columns.

use comfy_table::{Cell, CellAlignment, ContentArrangement};

/// Where a table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Fits the terminal's width: long cells are wrapped.
    Terminal,
    /// As [`Style::Terminal`] of this many columns.
    #[cfg(test)]
    Columns(u16),
    /// One line per row, however long, for `grep` and `awk`.
    Plain,
}

/// A table under construction.
pub(crate) struct Table {
    inner: comfy_table::Table,
    style: Style,
}

impl Table {
    /// An empty table. A column whose title starts with `#` holds numbers: it is aligned to the right.
    pub(crate) fn new<const N: usize>(style: Style, titles: [&str; N]) -> Self {
        Self::with(style, &titles.map(str::to_owned))
    }

    /// As [`Table::new`], with any number of columns.
    pub(crate) fn with(style: Style, titles: &[String]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(comfy_table::presets::NOTHING);
        inner.set_header(titles.iter().map(|t| t.trim_start_matches('#')));
        for (column, title) in inner.column_iter_mut().zip(titles) {
            column.set_padding((0, 2));
            if title.starts_with('#') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        match style {
            // A serial line is a terminal that does not know its width.
            Style::Terminal if inner.width() == Some(0) => {
                inner.set_content_arrangement(ContentArrangement::Disabled);
            }
            Style::Terminal => {
                inner.set_content_arrangement(ContentArrangement::Dynamic);
            }
            #[cfg(test)]
            Style::Columns(width) => {
                inner
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(width);
            }
            Style::Plain => {
                inner.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        Self { inner, style }
    }

    /// Adds a row; `-` stands for an empty cell.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.cells(cells.into());
    }

    /// As [`Table::row`], with any number of cells.
    pub(crate) fn cells(&mut self, cells: Vec<String>) {
        let plain = self.style == Style::Plain;
        self.inner.add_row(cells.into_iter().map(|text| {
            let text = if text.is_empty() {
                "-".to_owned()
            } else {
                text
            };
            Cell::new(if plain { text.replace('\n', " ") } else { text })
        }));
    }

    /// Several values in one cell: below each other on a terminal, else separated by commas.
    pub(crate) fn list(&self, values: &[String]) -> String {
        let separator = if self.style == Style::Plain {
            ","
        } else {
            "\n"
        };
        values.join(separator)
    }

    /// The text, a line break at its end.
    pub(crate) fn text(&self) -> String {
        let mut text: String = self
            .inner
            .lines()
            .flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()])
            .collect();
        if text.is_empty() {
            text.push('\n');
        }
        text
    }
}
