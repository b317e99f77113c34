//! Columns under headings (`TextTable`).

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Debug)]
struct Column {
    heading: String,
    heading_align: Align,
    align: Align,
}

/// Rows under headings, two spaces between columns.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(crate) fn column(mut self, heading: &str, heading_align: Align, align: Align) -> TextTable {
        self.columns.push(Column { heading: heading.to_owned(), heading_align, align });
        self
    }

    /// Columns with headings as their cells are set.
    pub(crate) fn columns(self, headings: &[(&str, Align)]) -> TextTable {
        headings.iter().fold(self, |table, (heading, align)| table.column(heading, *align, *align))
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self) -> String {
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.columns[at].heading.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let pad = |text: &str, width: usize, align: Align| match align {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        };
        let headings: Vec<String> =
            self.columns.iter().zip(&widths).map(|(c, w)| pad(&c.heading, *w, c.heading_align)).collect();
        let mut out = headings.join("  ") + "\n";
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let cells: Vec<String> = cells.map(|((cell, c), w)| pad(cell, *w, c.align)).collect();
            out.push_str(&cells.join("  "));
            out.push('\n');
        }
        out
    }
}
