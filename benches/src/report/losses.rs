//! The operations in which our module is slower than the baseline or a peer, with the reasons.

use std::collections::BTreeMap;
use std::fs;

use jeton_laboratory::Table;

use super::data::Data;
use super::{markdown, words};
use crate::artefacts::root;

/// Returns a table of the reasons, with the groups in which our module is more than 1 % slower than
/// the baseline, or slower than a peer.
pub fn list(data: &Data) -> String {
    let reasons = Reasons::read();
    let mut lost: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for group in data.groups("") {
        let Some(jeton) = data.jeton(group) else { continue };
        let mut than = Vec::new();
        if let Some(ratio) =
            data.baseline(group).and_then(|_| data.ratio(group)).filter(|ratio| *ratio > 1.01)
        {
            than.push(format!("{:.1} %", (ratio - 1.0) * 100.0));
        }
        if let Some((peer, _)) = data.best_peer(group).filter(|(_, nanos)| *nanos < jeton) {
            than.push(peer.to_owned());
        }
        if !than.is_empty() {
            let operation = format!("{} ({})", words::operation(group), than.join(", "));
            lost.entry(reasons.of(group)).or_default().push(operation);
        }
    }
    let mut table = Table::new(2, ["operations", "reason"]);
    lost.iter().for_each(|(reason, operations)| table.add([operations.join("; "), (*reason).to_owned()]));
    if lost.is_empty() { "None.\n".to_owned() } else { markdown(&table) }
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
    use crate::names;

    #[test]
    fn a_reason_belongs_to_a_group_or_to_a_prefix() {
        let reasons = Reasons::parse("# comment: none\nsign/p256: the first\nsign/*: the second\n");
        assert_eq!(reasons.of("sign/p256"), "the first");
        assert_eq!(reasons.of("sign/p384"), "the second");
        assert_eq!(reasons.of("verify/p384"), "The reason is not known yet.");
    }

    #[test]
    fn the_list_has_the_difference_and_the_faster_peer() {
        let data = Data::of(&[("g", names::BASELINE, 100.0), ("g", "jeton", 120.0), ("g", "nss", 60.0)]);
        let text = list(&data);
        assert!(text.contains("| g (20.0 %, nss) | "), "{text}");
        assert_eq!(list(&Data::of(&[("g", "jeton", 120.0), ("g", "nss", 160.0)])), "None.\n");
    }
}
