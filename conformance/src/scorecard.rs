//! The scorecard of one module: a line for each check, and sums.

use std::io::{self, Write};

use crate::record::{Record, Section, Verdict};

pub fn print(name: &str, records: &[Record], out: &mut impl Write) -> io::Result<()> {
    for record in records {
        writeln!(out, "{}", line(record))?;
        if let Verdict::Vectors(tally) = &record.verdict {
            for one in tally.deviations.iter().filter(|one| one.reason.is_none()) {
                writeln!(out, "       {} ({}): {}, got {}", one.test, one.comment, one.expected, one.got)?;
            }
        }
    }
    writeln!(out)?;
    sums(records).into_iter().try_for_each(|sum| writeln!(out, "{name}: {sum}"))
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
        Verdict::Resisted(how) => format!("resisted: {how}"),
        Verdict::Succeeded => "SUCCEEDED".to_owned(),
        Verdict::Allowed(why) => format!("succeeded, allowed by the standard: {why}"),
        Verdict::Crashed(how) => format!("crashed: {how}"),
    };
    let verdict = if record.is_good() { "ok  " } else { "FAIL" };
    format!("{verdict} {:<26} {:<52} {said}", record.subject, record.name)
}

pub fn sums(records: &[Record]) -> Vec<String> {
    let of = |section| records.iter().filter(move |record| record.section == section);
    if of(Section::Attacks).next().is_some() {
        return vec![attacks(records)];
    }
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
    let mut sums = vec![
        format!("{} of {} functions are implemented", functions(records), of(Section::Functions).count()),
        format!("{} of {} cases match the specification", good(Section::Cases), of(Section::Cases).count()),
        format!(
            "{} of {} mechanisms work, {} are absent",
            count(Section::Mechanisms, |verdict| matches!(verdict, Verdict::Works)),
            of(Section::Mechanisms).count(),
            count(Section::Mechanisms, |verdict| matches!(verdict, Verdict::Absent(_))),
        ),
    ];
    // `jeton-driver conformance` has no vectors; the program `conformance` has them.
    if of(Section::Vectors).next().is_some() {
        sums.push(format!(
            "{executed} vectors in {sets} sets, {unlisted} unexpected results, {listed} more with a listed reason"
        ));
    }
    sums
}

/// Returns the sums of a run of attacks, which has no other checks.
fn attacks(records: &[Record]) -> String {
    let [resisted, allowed, succeeded, absent] = outcomes(records);
    let all = records.len();
    format!(
        "{all} attacks: {resisted} resisted, {succeeded} succeeded, {allowed} allowed by the standard, {absent} not applicable"
    )
}

/// Returns how many attacks were resisted, are allowed by the standard, succeeded, and are not
/// applicable. A crash counts as a success of the attack, as does an attack that could not begin.
pub fn outcomes(records: &[Record]) -> [usize; 4] {
    let count = |fits: fn(&Verdict) -> bool| records.iter().filter(|record| fits(&record.verdict)).count();
    [
        count(|verdict| matches!(verdict, Verdict::Resisted(_))),
        count(|verdict| matches!(verdict, Verdict::Allowed(_))),
        count(|verdict| matches!(verdict, Verdict::Succeeded | Verdict::Crashed(_) | Verdict::Fails(_))),
        count(|verdict| matches!(verdict, Verdict::Absent(_))),
    ]
}

/// Returns the number of functions that the module implements.
fn functions(records: &[Record]) -> usize {
    let does = |verdict: &Verdict| matches!(verdict, Verdict::Answer(answer) if answer != "CKR_FUNCTION_NOT_SUPPORTED");
    records.iter().filter(|record| does(&record.verdict)).count()
}
