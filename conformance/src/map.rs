//! The map from each demand of PKCS#11 3.2 on a token to its answers: the file `map.tsv` of this
//! package. The demands are in our own words.

/// A row of the map.
pub struct Demand {
    /// The number of the section in PKCS#11 3.2 and its title, or the function or structure.
    pub section: &'static str,
    pub demand: &'static str,
    /// Parts with "; " between them, each of one of three kinds. "case: " and a text: the checks
    /// whose title contains it, like those that `--only` selects. "test: ", the path of a file of
    /// the tree, "::" and a test in it. "reason: " and why no check answers, or why Jeton differs
    /// from the standard.
    answers: &'static str,
}

impl Demand {
    pub fn cases(&self) -> impl Iterator<Item = &'static str> {
        self.answers.split("; ").filter_map(|part| part.strip_prefix("case: "))
    }
}

const MAP: &str = include_str!("../map.tsv");

/// Returns the rows in the order of the sections. A malformed row has no answer.
pub fn demands() -> impl Iterator<Item = Demand> {
    MAP.lines().skip(1).map(|line| {
        let mut cells = line.split('\t');
        let section = cells.next().unwrap_or_default();
        // The file of the specification and the strength are for readers of the table.
        let demand = cells.nth(2).unwrap_or_default();
        Demand { section, demand, answers: cells.next().unwrap_or_default() }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::child;

    #[test]
    fn every_demand_has_answers_that_exist() {
        let titles: Vec<_> = child::every(false).iter().map(|task| task.title()).collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        for Demand { section, demand, answers } in demands() {
            for part in answers.split("; ") {
                let exists = match part.split_once(": ") {
                    Some(("case", text)) => titles.iter().any(|title| title.contains(text)),
                    Some(("test", path)) => is_test(root, path),
                    Some(("reason", text)) => (1..=15).contains(&text.split_whitespace().count()),
                    _ => false,
                };
                assert!(exists, "{section}: {demand}: {part}");
            }
        }
    }

    /// Returns whether the file of the test has a function with the attribute `#[test]` and that
    /// name.
    fn is_test(root: &Path, path: &str) -> bool {
        let (file, name) = path.split_once("::").expect("a path and a name");
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let mut functions = source.split("#[test]").skip(1).filter_map(|after| after.split_once("fn "));
        functions.any(|(_, function)| function.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
    }

    #[test]
    fn every_row_is_short_and_differs_from_the_others() {
        const STRENGTHS: [&str; 6] = ["must", "must not", "shall", "shall not", "should", "should not"];
        let mut seen = BTreeSet::new();
        for line in MAP.lines().skip(1) {
            let [section, _, strength, demand, _] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            assert!(STRENGTHS.contains(&strength), "{line}");
            assert!((1..=12).contains(&demand.split_whitespace().count()), "{line}");
            assert!(seen.insert((section, demand)), "twice: {line}");
        }
        assert!(seen.len() > 300, "{} rows", seen.len());
    }
}
