//! How fast libraries read certificates: the tables of source document 001
//! (docs/benchmarks/seeds.md). It measures no module.

mod library;
mod set;

use std::hint::black_box;
use std::time::Duration;

use jeton_laboratory::figure::{nanoseconds, ratio_text};
use jeton_laboratory::{Machine, Table, median};

use self::library::{Field, LIBRARIES, Library};
use self::set::Set;
use crate::AnyError;
use crate::artefacts::write_page;
use crate::operation::{Boxed, repeated};
use crate::turns::{ratio, rounds};

/// What a turn does with each certificate: its name, and whether the fields are read.
const OPERATIONS: [(&str, bool); 2] = [("parse", false), ("parse, read all fields", true)];

/// Prints the table. A full run also writes `docs/benchmarks/seeds-parse.tsv`.
pub fn measure(quick: bool) -> Result<(), AnyError> {
    let (levels, budget) = if quick { (&[9, 66, 22, 1][..], 200) } else { (set::LEVELS, 4_000) };
    let table = compare(&set::all(levels)?, Duration::from_millis(budget))?;
    println!("{}, {}", Machine::this(), openssl::version::version());
    println!("{}", table.terminal(None));
    println!("for one certificate; in brackets the median of the ratios to {} in turns", LIBRARIES[0].name);
    if quick {
        return Ok(());
    }
    let lines = std::iter::once(&table.header).chain(&table.rows).map(|cells| cells.join("\t") + "\n");
    write_page("seeds-parse.tsv", &lines.collect::<String>())
}

/// Measures each set with all libraries in turns.
fn compare(sets: &[Set], budget: Duration) -> Result<Table, AnyError> {
    let header = ["certificates", "count", "bytes", "operation"];
    let mut table = Table::new(1, header.into_iter().chain(LIBRARIES.iter().map(|library| library.name)));
    for set in sets {
        for library in &LIBRARIES {
            if !set.certificates.iter().all(|der| (library.parse)(der) && (library.fields)(der, &mut |_| ()))
            {
                return Err(format!("{} refuses a certificate of {}", library.name, set.name).into());
            }
        }
        let bytes = median(set.certificates.iter().map(|der| der.len() as f64).collect());
        for (operation, reads_fields) in OPERATIONS {
            let mut work = LIBRARIES.each_ref().map(|library| reading(library, set, reads_fields));
            let times = rounds(work.each_mut(), budget);
            let mut cells =
                vec![set.name.to_owned(), set.certificates.len().to_string(), format!("{bytes:.0}")];
            cells.push(operation.to_owned());
            for (at, row) in times.iter().enumerate() {
                let time = nanoseconds(median(row.clone()) * 1e9);
                let ratio = || format!(" ({})", ratio_text(ratio(row, &times[0])));
                cells.push(if at == 0 { time } else { time + &ratio() });
            }
            table.add(cells);
        }
    }
    Ok(table)
}

/// Returns an operation that reads the next certificate of the set.
fn reading<'a>(library: &'static Library, set: &'a Set, reads_fields: bool) -> Boxed<'a> {
    let mut certificates = set.certificates.iter().cycle();
    let mut next = move || black_box(certificates.next().map_or(&[][..], Vec::as_slice));
    if reads_fields {
        let mut read = |field: Field<'_>| {
            black_box(field);
        };
        repeated(move || {
            black_box((library.fields)(next(), &mut read));
        })
    } else {
        repeated(move || {
            black_box((library.parse)(next()));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_measures_each_set_with_each_library() {
        let sets = set::all(&[1, 2]).expect("certificates");
        let table = compare(&sets, Duration::from_millis(20)).expect("a table");
        assert_eq!(table.rows.len(), sets.len() * OPERATIONS.len());
        for row in &table.rows {
            assert_eq!(row.len(), 4 + LIBRARIES.len(), "{row:?}");
            for cell in &row[4..] {
                let (number, _) = cell.split_once(' ').expect("a number and its unit");
                assert!(number.parse::<f64>().is_ok_and(|number| number > 0.0), "{row:?}");
            }
        }
    }

    #[test]
    fn a_certificate_that_a_library_refuses_is_no_row() {
        let broken = Set { name: "broken", certificates: vec![vec![0x30, 0]] };
        let reason = compare(&[broken], Duration::ZERO).expect_err("an empty sequence");
        assert_eq!(reason.to_string(), "synta refuses a certificate of broken");
    }
}
