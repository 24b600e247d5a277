//! `docs/benchmarks.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use jeton_driver::report::Machine;

use super::data::Data;
use super::figures::{self, Figure};
use super::{losses, tables};
use crate::facts::{Instructions, LeftOut};

/// The whole page.
pub fn page(data: &Data) -> String {
    let mut text = String::from(
        "# Benchmarks\n\nWritten by `cargo run --release -p jeton-benches -- report` from the data of one run of \
         `cargo bench`; change the program, not this page.\n\n",
    );
    text.push_str(&run(data));
    text.push_str(&figures_to_reach(data));
    section(&mut text, "Lost rows", &losses::list(data));
    text.push_str("## Overhead\n\n![time over the floor's](benchmarks/overhead.svg)\n\n");
    for (title, prefixes) in SECTIONS {
        section(&mut text, title, &tables::compared(data, prefixes));
    }
    text.push_str("![throughput over threads](benchmarks/threads.svg)\n\n");
    text.push_str("![time of a search over objects](benchmarks/search.svg)\n\n");
    text.push_str(&beside(data));
    text.push_str(WHAT_IT_SHOWS);
    text
}

const SECTIONS: &[(&str, &[&str])] = &[
    ("Signatures", &["sign/"]),
    ("Verification", &["verify/"]),
    ("Keys", &["generate/", "kem/"]),
    ("Encryption, digests, codes, random bytes", &["aes-gcm/", "sha256/", "hmac-sha256/", "random/"]),
    ("Sessions and single objects", &["session/", "object/", "first-use/"]),
    ("Searches among session objects", &["search/session/"]),
    ("Searches among token objects", &["search/token/"]),
    ("Start with a token of so many objects", &["start/"]),
    ("Threads (time in which each thread does one)", &["threads/"]),
];

fn section(text: &mut String, title: &str, body: &str) {
    write!(text, "## {title}\n\n{body}\n").expect("a string");
}

fn run(data: &Data) -> String {
    let (run, machine) = (&data.run, Machine::this());
    let mode = if run.short { "the short mode, whose figures are rough" } else { "the full mode" };
    let mut text = format!(
        "## The run\n\n- {}, {} threads; {}\n- {}\n- AWS-LC {} as the floor, `aws-lc-sys` 0.47.0 in both\n\
         - `cargo bench {}` on {}, {mode}, {} s\n",
        machine.cpu,
        machine.cores,
        machine.system,
        first_line("rustc", "--version"),
        jeton_driver::peers::describe_in_process().version,
        run.command.replace("--bench", "").trim(),
        first_line_of(Command::new("date").args(["--utc", "+%Y-%m-%d", "-d", &format!("@{}", run.started)])),
        run.seconds,
    );
    for row in &run.rows {
        writeln!(text, "- `{}`: {}", row.name, row.description).expect("a string");
    }
    text.push_str("\nNot measured, and why:\n\n");
    text + &left_out(&run.left_out) + "\n"
}

/// A line for each reason that a row has, with its groups.
fn left_out(all: &[LeftOut]) -> String {
    let mut groups: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for LeftOut { group, row, reason } in all {
        groups.entry((row, reason)).or_default().insert(group);
    }
    if groups.is_empty() {
        return "- nothing\n".to_owned();
    }
    let line = |((row, reason), groups): (&(&str, &str), &BTreeSet<&str>)| {
        let groups: Vec<_> = groups.iter().copied().collect();
        format!("- {row}, `{reason}`: {}\n", groups.join(", "))
    };
    groups.iter().map(line).collect()
}

fn first_line(program: &str, argument: &str) -> String {
    first_line_of(Command::new(program).arg(argument))
}

fn first_line_of(command: &mut Command) -> String {
    let said = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.ok().and_then(|said| said.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

fn figures_to_reach(data: &Data) -> String {
    let mut text = String::from("## Figures to reach\n\n| | to reach | measured | |\n|--:|---|---|---|\n");
    for (number, figures) in figures::all(data) {
        for Figure { aim, found, reached } in figures {
            let verdict = match reached {
                Some(true) => "reached",
                Some(false) => "**not reached**",
                None => "not measured",
            };
            writeln!(text, "| {number} | {aim} | {found} | {verdict} |").expect("a string");
        }
    }
    text.push('\n');
    text
}

/// What was measured beside criterion.
fn beside(data: &Data) -> String {
    let mut text = String::from(
        "## Latency of P-256 signatures beside RSA-4096 key generation\n\nMicroseconds; the keys are made by a \
         second thread, in another session.\n\n| row | p50 | p99 | p99.9 | longest | signatures | keys |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for latency in &data.latency {
        let [p50, p99, p999, max] =
            [latency.p50, latency.p99, latency.p999, latency.max].map(|nanos| nanos as f64 / 1e3);
        let (row, signatures, keys) = (&latency.row, latency.signatures, latency.keys);
        writeln!(text, "| {row} | {p50:.1} | {p99:.1} | {p999:.1} | {max:.1} | {signatures} | {keys} |")
            .expect("a string");
    }
    text.push_str(
        "\n## Instructions and allocations\n\nOf an operation whose Init function is armed again, counted by callgrind \
         and memcheck; the library's own are in them. Valgrind's processor lacks some of this machine's \
         instructions, so that the counts of the rows with a library are of other code than what is timed above. \
         ML-DSA draws until a signature fits, so that its rows differ by chance.\n\n\
         | operation | row | instructions | allocations |\n|---|---|--:|--:|\n",
    );
    for counted in &data.instructions {
        let Instructions { operation, row, instructions, allocations } = counted;
        writeln!(text, "| {operation} | {row} | {instructions:.1} | {allocations:.2} |").expect("a string");
    }
    text.push_str("\n## Size, loading, memory\n\n");
    if let Some(startup) = &data.startup {
        for (row, bytes) in &startup.sizes {
            writeln!(text, "- the file of `{row}`: {:.2} MB", *bytes as f64 / 1e6).expect("a string");
        }
        for (row, median, least, most) in &startup.load {
            writeln!(text, "- `{row}` from `dlopen` to the end of `C_Initialize`, empty token directory: {median:.2} ms ({least:.2} to {most:.2})")
                .expect("a string");
        }
        for memory in &startup.memory {
            let (row, home, objects, bytes) = (&memory.row, &memory.home, memory.objects, memory.bytes);
            writeln!(text, "- `{row}`, {objects} {home} objects: {bytes:.0} bytes each, of which {} are attributes' values", memory.attributes)
                .expect("a string");
        }
    }
    text.push_str("\n## Filling\n\n| row | objects | made | threads | seconds | per object |\n|---|---|--:|--:|--:|--:|\n");
    for fill in &data.run.fills {
        let each = tables::time(fill.seconds * 1e9 / fill.made.max(1) as f64);
        let (row, home, seconds) = (&fill.row, &fill.home, fill.seconds);
        let (reached, wanted, made, threads) = (fill.reached, fill.wanted, fill.made, fill.threads);
        writeln!(
            text,
            "| {row} | {reached} of {wanted} ({home}) | {made} | {threads} | {seconds:.2} | {each} |"
        )
        .expect("a string");
    }
    text.push('\n');
    text
}

const WHAT_IT_SHOWS: &str = "\
## What the rows show, and what they do not

- All rows run in one process, one after the other within a group, each module through its own function list. What is
  timed is the functions of the module with arguments prepared beforehand. The floor runs first and once more at the
  end of its group (`floor-again`); the page takes the mean of the two. Where they differ, the machine did.
- What is said of `jeton` and the floor's speed was measured in turns of some milliseconds, 40 of each, with the order
  changing: the median of their ratios, which a shared machine moves less than rows that come one after the other. The
  other rows have the ratio of medians.
- `floor` is AWS-LC called directly with a parsed key, by functions that do the same work: ECDSA as r || s over a
  digest, `RSA_sign`, ML-DSA with the expanded key, hedged, below the EVP interface. It checks nothing, finds nothing and
  knows no sessions. SLH-DSA's floor is the crate `slh-dsa`, which the token uses too. Key generation at the floor makes
  a parsed key and no object. AES-GCM's floor has the key set up and gets another initialisation vector for each
  message, as every row does, since GCM allows nothing else.
- `core` is the token without its C interface: what reading C structures costs is the difference to `jeton`, except
  for templates and what the safe types need, which it reads too.
- `jeton-rc` is the same module with the backend `rustcrypto`; its distance to the floor is the library's, not ours.
- `jeton-null` computes nothing, so that it shows our own cost alone. It is another build, never shipped.
- Private keys are token objects, private and sensitive, as an application keeps them. Rows that end in `-session` are
  the same peer with session keys, in the full mode alone; where a peer is compared, its quicker row counts.
- The peers are as their package installs them. SoftHSMv2's objects lie in files, NSS's in its database, with its
  default key derivation. A newer version, or one built with another library, can be quicker.
- The PIN's key derivation is set to cost nothing in our rows, since it is made to cost much; the figures of the start
  say so.
- Whole milliseconds of `create-token` and of persistent keys are the disk's: a row that does not wait for the disk
  before it answers (SoftHSMv2 never does) is quicker and promises less.
- Peers are filled with objects for as long as the settings say and drop out of larger sizes; the table of fillings says how
  far they came.
- Signatures of each row are verified by both libraries before timing, and in the groups `threads` the last one of every
  thread at every sample. SLH-DSA is not: both have the same crate.
- Threads beyond the machine's cores show what waiting costs, not what more cores would give.
- Latencies are of single calls and hold what the system's scheduler does to a thread; the floor's row holds it too.
";
