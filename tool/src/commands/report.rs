//! `ca report`: a page for people, and metrics for a monitor, from the list of certificates.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::{Args, ValueEnum};
use jeton_ca::authority::entry_of;
use jeton_ca::register::{Ca, Entry};
use jeton_ca::search::soon;
use jeton_tool::Error;
use jeton_tool::time::{date, now, seconds};

use super::authority::{IssuedRow, ListFile};
use super::out::Output;

/// The colours and the layout. The page loads nothing.
const STYLE: &str = ":root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:90rem;margin:2rem auto;padding:0 1rem}\
section{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{border:1px solid #8888;padding:.25rem .6rem;text-align:left}th{background:#8882}td:first-child{white-space:nowrap}\
.late{color:#d33;font-weight:600}.number{text-align:right}.plot{width:30rem}.plot div{height:1em;background:#47a}";

/// Write what the CAs issued, what ends soon and in which month, what is revoked, and the age of
/// the CRLs.
#[derive(Args)]
pub struct Report {
    #[command(flatten)]
    list: ListFile,
    /// How soon a certificate ends: a number of days (30d), hours (12h) or weeks (4w).
    #[arg(long, default_value = "30d", value_parser = seconds)]
    within: i64,
    /// A page of HTML, or metrics in the text format of Prometheus.
    #[arg(long, value_enum, default_value = "html")]
    format: Format,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Html,
    Prometheus,
}

/// The facts about a CA. Times are seconds since 1970.
struct Facts {
    ca: Ca,
    end: i64,
    /// The number of certificates of each status.
    count: BTreeMap<&'static str, usize>,
    soon: usize,
}

impl Report {
    pub fn run(self) -> Result<(), Error> {
        let register = self.list.open()?;
        let entries = register.entries(None)?;
        let soon = soon(&entries, self.within);
        let facts = register.authorities()?.into_iter().map(|ca| {
            let mut count = BTreeMap::from(["valid", "expired", "held", "revoked"].map(|status| (status, 0)));
            for entry in entries.iter().filter(|entry| entry.authority == ca.id) {
                *count.entry(entry.status()).or_default() += 1;
            }
            let soon = soon.iter().filter(|entry| entry.authority == ca.id).count();
            let end = entry_of(&ca.certificate, "", "")?.not_after.unwrap_or_default();
            Ok(Facts { ca, end, count, soon })
        });
        let facts = facts.collect::<Result<Vec<_>, Error>>()?;
        let text = match self.format {
            Format::Html => html(&facts, &soon, &entries),
            Format::Prometheus => metrics(&facts, &soon),
        };
        self.output.text(text.as_bytes())
    }
}

fn html(facts: &[Facts], soon: &[&Entry], entries: &[Entry]) -> String {
    let late = |end: i64| if end < now() { " class=\"late\"" } else { "" };
    let cas = facts.iter().map(|Facts { ca, end, count, soon }| {
        let crl = ca.crl_end.map_or("<td>".to_owned(), |end| format!("<td{}>{}", late(end), date(end)));
        let count: String = count.values().map(|number| format!("<td>{number}")).collect();
        let (subject, end, is_late) = (escaped(&ca.subject), day(Some(*end)), late(*end));
        format!("<td>{subject}<td{is_late}>{end}{count}<td>{soon}<td>{}{crl}", ca.crl_number)
    });
    let ends_later = |entry: &&Entry| entry.not_after.is_none_or(|end| end >= now());
    let revoked = entries.iter().filter(|entry| entry.revoked.is_some()).filter(ends_later).map(|entry| {
        let reason = IssuedRow::of(entry).reason.unwrap_or_default();
        format!("<td>{}<td>{reason}{}", day(entry.revoked), row(entry))
    });
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Certificates</title><style>{STYLE}</style></head>\n<body><h1>Certificates on {}</h1>\n",
        date(now())
    );
    const CA: &str =
        "CA<th>ends<th>expired<th>held<th>revoked<th>valid<th>end soon<th>last CRL<th>which ends";
    const ROW: &str = "ends<th>subject<th>names<th>profile<th>CA<th>serial number";
    table(&mut page, "CAs", CA, cas);
    table(&mut page, "Certificates that end soon", ROW, soon.iter().map(|entry| row(entry)));
    let mut valid: Vec<_> = entries.iter().filter(|entry| entry.status() == "valid").collect();
    valid.sort_by_key(|entry| entry.not_after);
    table(
        &mut page,
        "Months in which certificates end",
        "month<th>certificates<th>",
        months(&valid).into_iter(),
    );
    table(&mut page, "Valid certificates", ROW, valid.iter().map(|entry| row(entry)));
    let columns = format!("revoked<th>reason<th>{ROW}");
    table(&mut page, "Revoked certificates that have not ended", &columns, revoked);
    page + "</body></html>\n"
}

/// Returns a row for each month in which one of the certificates ends, with a bar.
fn months(valid: &[&Entry]) -> Vec<String> {
    let mut count = BTreeMap::<String, usize>::new();
    for entry in valid {
        *count.entry(day(entry.not_after).chars().take(7).collect()).or_default() += 1;
    }
    let most = count.values().copied().max().unwrap_or(1);
    let row = |(month, number): (String, usize)| {
        let width = (number * 100).div_ceil(most);
        format!(
            "<td>{month}<td class=\"number\">{number}<td class=\"plot\"><div style=\"width:{width}%\"></div>"
        )
    };
    count.into_iter().map(row).collect()
}

fn row(entry: &Entry) -> String {
    let Entry { subject, names, profile, issuer, serial, .. } = entry;
    let cells = [&day(entry.not_after), subject, names, profile, issuer, serial];
    cells.map(|cell| format!("<td>{}", escaped(cell))).concat()
}

fn day(time: Option<i64>) -> String {
    time.map(|time| date(time).chars().take(10).collect()).unwrap_or_default()
}

fn table(page: &mut String, title: &str, columns: &str, rows: impl Iterator<Item = String>) {
    let rows: Vec<_> = rows.collect();
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<section><h2>{title}: {}</h2><table><tr><th>{columns}", rows.len());
    for row in rows {
        let _ = writeln!(page, "<tr>{row}");
    }
    page.push_str("</table></section>\n");
}

/// Returns a text without characters that have a meaning in HTML.
fn escaped(text: &str) -> String {
    let safe = jeton_client::safe_text::shown(text);
    safe.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns lines such as `jeton_crl_number{ca="CN=Example",id="0a1b2c3d"} 7`. CAs of one name have
/// different IDs. The lines of one metric follow each other.
fn metrics(facts: &[Facts], soon: &[&Entry]) -> String {
    let mut lines = Vec::new();
    let mut put = |name: &'static str, ca: &str, id: &str, labels: &[(&str, &str)], value: i64| {
        let labels = labels.iter().map(|(name, value)| format!(",{name}={}", quoted(value)));
        let labels: String = labels.collect();
        lines.push((name, format!("jeton_{name}{{ca={},id=\"{id:.8}\"{labels}}} {value}\n", quoted(ca))));
    };
    for Facts { ca, end, count, soon } in facts {
        for (status, number) in count {
            put("certificates", &ca.subject, &ca.id, &[("status", status)], *number as i64);
        }
        put("certificates_ending_soon", &ca.subject, &ca.id, &[], *soon as i64);
        put("ca_end_seconds", &ca.subject, &ca.id, &[], *end);
        put("crl_number", &ca.subject, &ca.id, &[], ca.crl_number as i64);
        put("crl_end_seconds", &ca.subject, &ca.id, &[], ca.crl_end.unwrap_or_default());
    }
    for entry in soon {
        let labels = [("subject", entry.subject.as_str()), ("serial", &entry.serial)];
        put(
            "certificate_end_seconds",
            &entry.issuer,
            &entry.authority,
            &labels,
            entry.not_after.unwrap_or_default(),
        );
    }
    lines.sort_by_key(|(name, _)| *name);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
