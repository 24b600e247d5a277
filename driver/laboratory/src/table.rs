//! A table of a report, for a terminal and in Markdown.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement};

/// A table. The first columns are names and aligned left. The others are aligned right.
#[derive(Clone, Debug)]
pub struct Table {
    /// The number of columns with names.
    pub names: usize,
    /// The headers of the columns.
    pub header: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows. `names` is the number of columns that are aligned left.
    pub fn new(names: usize, header: impl IntoIterator<Item: Into<String>>) -> Self {
        Self { names, header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item: Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds rows that have a name in the first column.
    #[must_use]
    pub fn with<C: IntoIterator<Item = String>>(
        mut self,
        rows: impl IntoIterator<Item = (String, C)>,
    ) -> Self {
        rows.into_iter().for_each(|(name, cells)| self.add(std::iter::once(name).chain(cells)));
        self
    }

    /// Returns the table for a terminal. It breaks cells so that it has at most `columns` columns.
    pub fn terminal(&self, columns: Option<usize>) -> String {
        let cells = |texts: &[String]| -> Vec<Cell> {
            let cells = texts.iter().enumerate().map(|(at, text)| match at < self.names {
                true => Cell::new(text),
                false => Cell::new(text).set_alignment(CellAlignment::Right),
            });
            cells.collect()
        };
        let mut table = comfy_table::Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(cells(&self.header));
        table.add_rows(self.rows.iter().map(|row| cells(row)));
        if let Some(columns) = columns {
            let width = u16::try_from(columns).unwrap_or(u16::MAX);
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.to_string()
    }

    /// Returns the table for a terminal, unless it is wider than `columns`.
    pub fn within(&self, columns: Option<usize>) -> Option<String> {
        let text = self.terminal(None);
        let fits = |columns| text.lines().all(|line| line.chars().count() <= columns);
        columns.is_none_or(fits).then_some(text)
    }

    /// Returns the table in Markdown. The cells have no characters with a meaning there.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = |at| if at < self.names { "---|" } else { "--:|" };
        let rules: String = (0..self.header.len()).map(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rules}\n{rows}", line(&self.header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_same_on_a_terminal_and_in_markdown() {
        let mut table = Table::new(1, ["name", "1/s"]);
        table.add(["a b", "12"]);
        assert_eq!(table.markdown(), "| name | 1/s |\n|---|--:|\n| a b | 12 |\n");
        let text = table.terminal(None);
        assert!(text.contains("│ a b  ┆  12 │"), "{text}");
        assert_eq!(table.within(Some(14)), Some(text));
        assert_eq!(table.within(Some(13)), None);
    }
}
