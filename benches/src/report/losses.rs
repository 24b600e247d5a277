//! Where somebody is quicker than we are, and why, as far as it is known.

use std::fmt::Write;
use std::fs;

use super::data::Data;
use super::tables::time;
use crate::artefacts::root;

/// A list of what was lost to the floor by more than one in a hundred, or to a peer.
pub fn list(data: &Data) -> String {
    let reasons = Reasons::read();
    let mut text = String::new();
    for group in data.groups("") {
        let Some(jeton) = data.jeton(group) else { continue };
        let mut lost = Vec::new();
        if let Some(floor) = data.floor(group) {
            let over = data.ratio(group).map_or(0.0, |ratio| ratio - 1.0);
            if over > 0.01 {
                lost.push(format!("to the floor by {} ({:.1} %)", time(over * floor), over * 100.0));
            }
        }
        if let Some((peer, nanos)) = data.best_peer(group).filter(|(_, nanos)| *nanos < jeton) {
            lost.push(format!("to {peer}, {} against our {}", time(nanos), time(jeton)));
        }
        if !lost.is_empty() {
            let reason = reasons.of(group);
            writeln!(text, "- `{group}` {}. {reason}", lost.join("; ")).expect("a string");
        }
    }
    if text.is_empty() { "None.\n".to_owned() } else { text }
}

/// `benches/reasons.txt`: lines `group: reason`; a group that ends with `*` means all that begin so.
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
        self.0.iter().find(|(pattern, _)| fits(pattern)).map_or("Why is not known yet.", |(_, reason)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_of_a_group_or_of_all_that_begin_so() {
        let reasons = Reasons::parse("# comment: none\nsign/p256: the first\nsign/*: the second\n");
        assert_eq!(reasons.of("sign/p256"), "the first");
        assert_eq!(reasons.of("sign/p384"), "the second");
        assert_eq!(reasons.of("verify/p384"), "Why is not known yet.");
    }

    #[test]
    fn what_is_lost_is_said_with_its_number() {
        let data = Data::of(&[("g", "floor", 100.0), ("g", "jeton", 120.0), ("g", "nss", 60.0)]);
        let text = list(&data);
        assert!(
            text.contains("to the floor by 20.0 ns (20.0 %); to nss, 60.0 ns against our 120 ns"),
            "{text}"
        );
        assert_eq!(list(&Data::of(&[("g", "jeton", 120.0), ("g", "nss", 160.0)])), "None.\n");
    }
}
