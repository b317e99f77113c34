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

/// The text with so many characters at least. Clients choose how long a name is, and `format!` takes no width above
/// 65,535.
pub(crate) fn pad(text: &str, width: usize, align: Align) -> String {
    let space = " ".repeat(width.saturating_sub(text.chars().count()));
    match align {
        Align::Left => format!("{text}{space}"),
        Align::Right => format!("{space}{text}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_longer_than_widths_of_the_standard_library() {
        let mut table = TextTable::default().columns(&[("A", Align::Left), ("B", Align::Right)]);
        let long = "\u{e9}".repeat(70_000);
        table.row(vec![long.clone(), "1".to_owned()]);
        table.row(vec!["x".to_owned(), long]);
        let lines: Vec<usize> = table.render().lines().map(|line| line.chars().count()).collect();
        assert_eq!(lines, [140_002; 3]);
    }
}
