//! The operations in which our module is slower than the baseline or a peer, with the reasons.

use std::fs;

use jeton_laboratory::Table;

use super::data::Data;
use super::{markdown, time, words};
use crate::artefacts::root;

/// Returns a table of the groups in which our module is more than 1 % slower than the baseline, or
/// slower than a peer.
pub fn list(data: &Data) -> String {
    let reasons = Reasons::read();
    let mut table = Table::new(3, ["operation", "difference", "reason"]);
    for group in data.groups("") {
        let Some(jeton) = data.jeton(group) else { continue };
        let mut lost = Vec::new();
        if let Some(baseline) = data.baseline(group) {
            let over = data.ratio(group).map_or(0.0, |ratio| ratio - 1.0);
            if over > 0.01 {
                lost.push(format!(
                    "{} ({:.1} %) slower than the baseline",
                    time(over * baseline),
                    over * 100.0
                ));
            }
        }
        if let Some((peer, nanos)) = data.best_peer(group).filter(|(_, nanos)| *nanos < jeton) {
            lost.push(format!("{}, but {peer} takes {}", time(jeton), time(nanos)));
        }
        if !lost.is_empty() {
            table.add([words::operation(group), lost.join("; "), reasons.of(group).to_owned()]);
        }
    }
    if table.rows.is_empty() { "None.\n".to_owned() } else { markdown(&table) }
}

/// The lines `group: reason` of `benches/reasons.txt`. A group that ends with `*` stands for all
/// groups that begin with the text before it.
struct Reasons(Vec<(String, String)>);

impl Reasons {
    fn read() -> Self {
        Self::parse(&fs::read_to_string(root().join("benches/reasons.txt")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(": "));
        Self(pairs.map(|(group, reason)| (group.to_owned(), reason.to_owned())).collect())
    }

    fn of(&self, group: &str) -> &str {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => group.starts_with(prefix),
            None => group == pattern,
        };
        self.0
            .iter()
            .find(|(pattern, _)| fits(pattern))
            .map_or("The reason is not known yet.", |(_, reason)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_belongs_to_a_group_or_to_a_prefix() {
        let reasons = Reasons::parse("# comment: none\nsign/p256: the first\nsign/*: the second\n");
        assert_eq!(reasons.of("sign/p256"), "the first");
        assert_eq!(reasons.of("sign/p384"), "the second");
        assert_eq!(reasons.of("verify/p384"), "The reason is not known yet.");
    }

    #[test]
    fn the_list_has_the_difference_and_the_faster_peer() {
        let data =
            Data::of(&[("g", crate::names::BASELINE, 100.0), ("g", "jeton", 120.0), ("g", "nss", 60.0)]);
        let text = list(&data);
        assert!(
            text.contains(
                "| g | 20.0 ns (20.0 %) slower than the baseline; 120 ns, but nss takes 60.0 ns | "
            ),
            "{text}"
        );
        assert_eq!(list(&Data::of(&[("g", "jeton", 120.0), ("g", "nss", 160.0)])), "None.\n");
    }
}
