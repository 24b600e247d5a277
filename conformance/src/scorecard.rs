//! The scorecard of one module: a line for what is wrong, and sums.

use crate::record::{Record, Section, Verdict};

/// Prints it.
pub fn print(name: &str, records: &[Record]) {
    for record in records {
        println!("{}", line(record));
        if let Verdict::Vectors(tally) = &record.verdict {
            for one in tally.deviations.iter().filter(|one| one.reason.is_none()) {
                println!("       {} ({}): {}, got {}", one.test, one.comment, one.expected, one.got);
            }
        }
    }
    println!();
    for sum in sums(records) {
        println!("{name}: {sum}");
    }
}

fn line(record: &Record) -> String {
    let said = match &record.verdict {
        Verdict::Case { expected, got, fits: false } => format!("{got}, not {}", expected.join(" or ")),
        Verdict::Case { got, .. } => got.clone(),
        Verdict::Answer(answer) => answer.clone(),
        Verdict::Works => "works".to_owned(),
        Verdict::Fails(why) => why.clone(),
        Verdict::Absent(what) => format!("absent: {what}"),
        Verdict::Vectors(tally) => {
            let (executed, skipped, deviating) = (tally.executed, tally.skipped, tally.deviations.len());
            format!("{executed} tests, {deviating} deviating, {skipped} not applicable")
        }
        Verdict::Crashed(how) => format!("crashed: {how}"),
    };
    let verdict = if record.is_good() { "ok  " } else { "FAIL" };
    format!("{verdict} {:<26} {:<52} {said}", record.subject, record.name)
}

/// A line for each chapter.
pub fn sums(records: &[Record]) -> Vec<String> {
    let of = |section| records.iter().filter(move |record| record.section == section);
    let count =
        |section, fits: fn(&Verdict) -> bool| of(section).filter(|record| fits(&record.verdict)).count();
    let good = |section| of(section).filter(|record| record.is_good()).count();
    let tallies = of(Section::Vectors).filter_map(|record| match &record.verdict {
        Verdict::Vectors(tally) => Some(tally),
        _ => None,
    });
    let (mut executed, mut unlisted, mut listed, mut sets) = (0, 0, 0, 0);
    for tally in tallies {
        let known = tally.deviations.iter().filter(|one| one.reason.is_some()).count();
        executed += tally.executed;
        listed += known;
        unlisted += tally.deviations.len() - known;
        sets += 1;
    }
    vec![
        format!("{} of {} functions do something", functions(records), of(Section::Functions).count()),
        format!(
            "{} of {} cases as the specification has it",
            good(Section::Cases),
            of(Section::Cases).count()
        ),
        format!(
            "{} of {} mechanisms work, {} are absent",
            count(Section::Mechanisms, |verdict| matches!(verdict, Verdict::Works)),
            of(Section::Mechanisms).count(),
            count(Section::Mechanisms, |verdict| matches!(verdict, Verdict::Absent(_))),
        ),
        format!(
            "{executed} vectors in {sets} sets, {unlisted} come out otherwise, {listed} more for a listed reason"
        ),
    ]
}

/// How many functions have something behind their names.
fn functions(records: &[Record]) -> usize {
    let does = |verdict: &Verdict| matches!(verdict, Verdict::Answer(answer) if answer != "CKR_FUNCTION_NOT_SUPPORTED");
    records.iter().filter(|record| does(&record.verdict)).count()
}
