//! Tables of medians, and the figures of all rows.

use std::iter;

use jeton_laboratory::Table;
use jeton_laboratory::figure::nanoseconds as time;

use super::data::Data;
use super::{markdown, words};
use crate::facts::{Filled, LeftOut};
use crate::names::{SOFTHSM, shown};

/// The other modules, with the names that the tables have for them.
const PEERS: [(&str, &str); 4] =
    [(SOFTHSM, "SoftHSMv2"), ("nss", "NSS"), ("kryoptic", "Kryoptic"), ("craton", "Craton HSM")];

/// Returns a table of the operations whose name begins with one of `prefixes`: our module, the
/// other modules in their faster configurations, and the baseline. Leaves out an operation that no
/// other module has, and a module without figures.
pub fn compared(data: &Data, prefixes: &[&str]) -> String {
    let mut groups: Vec<_> = prefixes.iter().flat_map(|prefix| data.groups(prefix)).collect();
    groups.retain(|group| data.best_peer(group).is_some());
    let quickest = |group: &str, peer: &str| {
        let rows = data.rows(group).into_iter().filter(|(row, _)| row.starts_with(peer));
        rows.map(|(_, estimate)| estimate.median).min_by(f64::total_cmp)
    };
    let mut peers = PEERS.to_vec();
    peers.retain(|(peer, _)| groups.iter().any(|group| quickest(group, peer).is_some()));
    let names = peers.iter().map(|(_, name)| *name);
    // The rivals are beside Jeton: a narrow window cuts the last columns.
    let header = ["operation", "Jeton"].into_iter().chain(names).chain(["AWS-LC called directly"]);
    let rows = groups.iter().map(|group| {
        let rivals = peers.iter().map(|(peer, _)| quickest(group, peer));
        let cells = iter::once(data.jeton(group)).chain(rivals).chain([data.baseline(group)]);
        let cells = cells.map(|cell| cell.map_or("-".to_owned(), time)).collect::<Vec<_>>();
        (words::operation(group), cells)
    });
    markdown(&Table::new(1, header).with(rows))
}

/// Returns every figure, separated by tabs: the rows of all operations, what could not be measured,
/// and the times in which the modules made the objects of the searches.
pub fn every_row(data: &Data) -> String {
    let mut text = String::from("operation\trow\tmedian, ns\tfrom\tto\tspeed relative to baseline\tnote\n");
    let mut add = |cells: [&str; 7]| text.extend([cells.join("\t").as_str(), "\n"]);
    let digits = |nanos: f64| if nanos < 1e3 { format!("{nanos:.1}") } else { format!("{nanos:.0}") };
    for group in data.groups("") {
        for (row, estimate) in data.rows(group) {
            let [median, low, high] = [estimate.median, estimate.low, estimate.high].map(digits);
            let speed = data.times(group, row).map(|times| format!("{:.3}", 1.0 / times));
            add([group, shown(row), &median, &low, &high, &speed.unwrap_or_default(), ""]);
        }
    }
    for LeftOut { group, row, reason } in &data.run.left_out {
        add([group, row, "", "", "", "", reason]);
    }
    for Filled { row, home, wanted, reached, made, threads, seconds } in &data.run.fills {
        let each = digits(seconds * 1e9 / (*made).max(1) as f64);
        let note = format!("{made} made by {threads} threads, {reached} of {wanted} reached");
        add([&format!("fill/{home}"), row, &each, "", "", "", &note]);
    }
    text
}

/// Writes our figures into a table of a source document (docs/benchmarks/seeds.md): the last two
/// cells of each row are the times of our module and of SoftHSMv2, and the first one names the
/// operation.
pub fn filled(data: &Data, table: &str) -> String {
    let fill = |line: &str| {
        let mut cells: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let group = cells[0].trim_matches('`').to_owned();
        if let [.., ours, theirs] = cells.as_mut_slice()
            && !data.rows(&group).is_empty()
        {
            let times = [data.jeton(&group), data.row(&group, SOFTHSM).map(|estimate| estimate.median)];
            [*ours, *theirs] = times.map(|nanos| nanos.map_or_else(String::new, time));
        }
        cells.join("\t") + "\n"
    };
    table.lines().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_measurement_is_a_dash() {
        let data = Data::of(&[("g", "jeton", 200.0), ("g", "softhsm2", 500.0), ("alone", "jeton", 1.0)]);
        let table = "| operation | Jeton | SoftHSMv2 | AWS-LC called directly |\n|---|--:|--:|--:|\n\
                     | g | 200 ns | 500 ns | - |\n";
        assert_eq!(compared(&data, &["g", "alone"]), table);
        assert!(every_row(&data).ends_with("\ng\tsofthsm2\t500.0\t500.0\t500.0\t\t\n"));
    }

    #[test]
    fn a_table_of_a_document_gets_the_figures_of_its_operations() {
        let data = Data::of(&[("g", "jeton", 200.0), ("g", "softhsm2", 500.0), ("h", "jeton", 1.0)]);
        let table = "filter\tdocument\tJeton\tSoftHSMv2 here\n`g`\t7 ns\t\t\n`h`\t8 ns\told\told\n";
        let filled = filled(&data, table);
        let (header, rows) = filled.split_once('\n').expect("a header");
        assert_eq!(header, "filter\tdocument\tJeton\tSoftHSMv2 here");
        assert_eq!(rows, "`g`\t7 ns\t200 ns\t500 ns\n`h`\t8 ns\t1.00 ns\t\n");
    }
}
