//! `docs/benchmarks.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use jeton_laboratory::{Machine, Table};

use super::data::Data;
use super::{losses, markdown, tables, time, words};
use crate::facts::{Instructions, LeftOut};
use crate::names::shown;

pub fn page(data: &Data) -> String {
    let mut text = String::from(INTRODUCTION);
    section(&mut text, "Summary", &tables::summary(data));
    text.push_str(PLOTS);
    text.push_str(&run(data));
    text.push_str(ROWS);
    for (title, prefixes) in SECTIONS {
        section(&mut text, title, &tables::compared(data, prefixes));
    }
    text.push_str(&latency(data));
    text.push_str(&instructions(data));
    text.push_str(&startup(data));
    text.push_str(&filling(data));
    text.push_str(METHOD);
    let slower = losses::list(data);
    section(&mut text, "Where Jeton is slower", &format!("{SLOWER}{slower}"));
    section(&mut text, "What could not be measured", &left_out(&data.run.left_out));
    text.truncate(text.trim_end().len());
    text + "\n"
}

const INTRODUCTION: &str = "\
# Benchmarks

This page compares Jeton with the crypto library called directly, and with SoftHSMv2, NSS, Kryoptic and Craton
HSM. Each of these modules has columns if `cargo bench` finds it. The variables `KRYOPTIC_MODULE` and
`CRATON_MODULE` name the files of the last two; [`driver/peers/build`](../driver/peers/build) builds both outside the
tree.
`cargo run --release -p jeton-benches -- report` writes this page from the data of the last complete run of
`cargo bench`, so change the program, not this page. [performance.md](benchmarks/performance.md) explains the
differences, and [rows.md](benchmarks/rows.md) has every row.

";

const PLOTS: &str = "\
The other modules are shown in the faster of two configurations. A dash means that the module has no such
operation or that it could not be measured; the end of this page says which.

![Time of one search by label, by number of objects](benchmarks/search.svg)

![P-256 signatures per second by number of threads, one session each](benchmarks/threads.svg)

![Time relative to AWS-LC called directly, for each operation](benchmarks/overhead.svg)

";

const ROWS: &str = "\
## The rows

| row | what it is |
|---|---|
| `baseline` | AWS-LC called directly, with a parsed key |
| `jeton` | Jeton as users get it, through its C interface, with AWS-LC |
| `jeton-rc` | `jeton` with the RustCrypto backend |
| `jeton-null` | a build of Jeton whose crypto computes nothing, which shows Jeton's own cost |
| `softhsm2`, `nss`, `kryoptic`, `craton` | the other modules, with keys that are token objects |
| names with `-session` | the same with session keys |

The column \"filter\" has the argument that measures an operation alone: `cargo bench -- sign/p256`.

";

const SLOWER: &str = "\
Each group in which Jeton is more than 1 % slower than the baseline, or slower than another module:

";

const SECTIONS: &[(&str, &[&str])] = &[
    ("Signatures", &["sign/"]),
    ("Verification", &["verify/"]),
    ("Keys", &["generate/", "kem/"]),
    (
        "Encryption, digests, MACs, random bytes",
        &["aes-gcm", "chacha20", "sha256/", "sha512/", "hmac-sha256/", "random/"],
    ),
    ("Sessions and single objects", &["session/", "object/", "first-use/"]),
    ("Searches among session objects", &["search/session/"]),
    ("Searches among token objects", &["search/token/"]),
    ("Start, by number of token objects", &["start/"]),
    ("Threads: time in which each thread does one operation", &["threads/"]),
];

fn section(text: &mut String, title: &str, body: &str) {
    write!(text, "## {title}\n\n{body}\n").expect("a string");
}

/// Returns the version in the headers that the baseline and Jeton are compiled with.
fn aws_lc_version() -> &'static str {
    let version = std::ffi::CStr::from_bytes_with_nul(aws_lc_sys::AWSLC_VERSION_NUMBER_STRING);
    version.ok().and_then(|version| version.to_str().ok()).unwrap_or("unknown")
}

fn run(data: &Data) -> String {
    let (run, machine) = (&data.run, Machine::this());
    let mode = if run.short { "short mode (rough figures)" } else { "full mode" };
    let mut text = format!(
        "## Machine and versions\n\n- {}, {} cores; {}\n- {}\n- AWS-LC {}, `aws-lc-sys` 0.47.0, in the baseline and in \
         Jeton\n- `{}` on {}, {mode}, {} s\n",
        machine.cpu,
        machine.cores,
        machine.system,
        first_line("rustc", "--version"),
        aws_lc_version(),
        format!("cargo bench {}", run.command.replace("--bench", "").trim()).trim(),
        first_line_of(Command::new("date").args(["--utc", "+%Y-%m-%d", "-d", &format!("@{}", run.started)])),
        run.seconds,
    );
    for row in &run.rows {
        // The versions of the packages are on a line of their own.
        let description = row.description.replacen("; ", ";\n  ", 1);
        writeln!(text, "- `{}`: {description}", row.name).expect("a string");
    }
    text + "\n"
}

/// Returns a table with one line for each pair of row and reason. The line lists the groups.
fn left_out(all: &[LeftOut]) -> String {
    let mut groups: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for LeftOut { group, row, reason } in all {
        groups.entry((row, reason)).or_default().insert(group);
    }
    if groups.is_empty() {
        return "Everything was measured.\n".to_owned();
    }
    let mut table = Table::new(3, ["row", "reason", "operations"]);
    for ((row, reason), groups) in groups {
        let groups: Vec<_> = groups.iter().map(|group| words::operation(group)).collect();
        table.add([row.to_owned(), format!("`{reason}`"), groups.join(", ")]);
    }
    markdown(&table)
}

fn first_line(program: &str, argument: &str) -> String {
    first_line_of(Command::new(program).arg(argument))
}

fn first_line_of(command: &mut Command) -> String {
    let said = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.ok().and_then(|said| said.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

fn latency(data: &Data) -> String {
    let mut table = Table::new(1, ["row", "p50", "p99", "p99.9", "longest", "signatures", "keys"]);
    for latency in &data.latency {
        let times = [latency.p50, latency.p99, latency.p999, latency.max];
        let times = times.map(|nanos| format!("{:.1}", nanos as f64 / 1e3)).into_iter();
        let counts = [latency.signatures, latency.keys].map(|count| count.to_string());
        table.add(std::iter::once(shown(&latency.row).to_owned()).chain(times).chain(counts));
    }
    format!(
        "## Latency of P-256 signatures while RSA-4096 keys are generated\n\nMicroseconds. A second thread makes the \
         keys in another session.\n\n{}\n",
        markdown(&table)
    )
}

fn instructions(data: &Data) -> String {
    let mut table = Table::new(2, ["operation", "row", "instructions", "allocations"]);
    for counted in &data.instructions {
        let Instructions { operation, row, instructions, allocations } = counted;
        let counts = [format!("{instructions:.1}"), format!("{allocations:.2}")];
        table.add([operation.clone(), shown(row).to_owned()].into_iter().chain(counts));
    }
    format!("## Instructions and allocations\n\n{COUNTED}{}\n", markdown(&table))
}

const COUNTED: &str = "\
Counted by callgrind and memcheck, for an operation whose `Init` function is called again with the same
key. The counts include the crypto library. The processor that valgrind simulates lacks some instructions
of this machine, so the library runs other code here than in the tables above. ML-DSA repeats until a
signature fits, so its rows differ by chance.

";

fn startup(data: &Data) -> String {
    let mut text = String::from("## Size, loading, memory\n\n");
    let Some(startup) = &data.startup else { return text };
    for (row, bytes) in &startup.sizes {
        writeln!(text, "- File size of `{row}`: {:.2} MB.", *bytes as f64 / 1e6).expect("a string");
    }
    for (row, median, least, most) in &startup.load {
        writeln!(
            text,
            "- `{row}` from `dlopen` to the end of `C_Initialize`, empty token directory: {median:.2} ms \
             ({least:.2} to {most:.2})."
        )
        .expect("a string");
    }
    for memory in &startup.memory {
        let (row, home, objects, bytes) = (&memory.row, &memory.home, memory.objects, memory.bytes);
        writeln!(
            text,
            "- `{row}`, {objects} {home} objects: {bytes:.0} bytes each, {} of them for the values of attributes.",
            memory.attributes
        )
        .expect("a string");
    }
    text + "\n"
}

fn filling(data: &Data) -> String {
    let mut table = Table::new(2, ["row", "objects", "made", "threads", "seconds", "per object"]);
    for fill in &data.run.fills {
        table.add([
            fill.row.clone(),
            format!("{} of {} ({})", fill.reached, fill.wanted, fill.home),
            fill.made.to_string(),
            fill.threads.to_string(),
            format!("{:.2}", fill.seconds),
            time(fill.seconds * 1e9 / fill.made.max(1) as f64),
        ]);
    }
    format!("## Making objects\n\n{FILLED}{}\n", markdown(&table))
}

const FILLED: &str = "\
The objects for the searches above. A module that does not make them within the time limit of the settings
is left out of the larger sizes.

";

const METHOD: &str = "\
## Method

What is timed:

- The bench times the functions of the module and nothing else. All arguments are prepared beforehand.
- All rows run in one process. Within a group they run one after the other, each module through its own
  function list.
- The baseline runs first and again at the end of its group (`baseline-again` in
  [every row](benchmarks/rows.md)). The tables have the mean of the two. If the two differ, the load of
  the machine changed.
- \"Speed relative to baseline\" of `jeton` is measured in turns: 40 turns of some milliseconds for each side,
  in changing order. The figure is the median of their ratios. A shared machine disturbs it less than
  rows that run one after the other. The other rows have the ratio of the medians.
- Latencies are those of single calls. They include the delays of the system's scheduler, also for the
  baseline.
- More threads than cores show the cost of waiting, not the effect of more cores.

What the baseline does:

- It does the same work as the token's function: ECDSA as r || s over a digest, `RSA_sign`, and hedged
  ML-DSA with the expanded key, below the EVP interface. It checks nothing, searches nothing and has no
  sessions.
- For SLH-DSA the baseline is the crate `slh-dsa`. Both backends of Jeton have their own code.
- Key generation at the baseline makes a parsed key but no object.
- For AES-GCM the key is set up beforehand. Each message has a new nonce in every row, because GCM
  requires it.

What the rows of Jeton do:

- The difference between `jeton-rc` and the baseline comes from the crypto library, not from Jeton.
- Private keys are token objects, private and sensitive, as an application keeps them.
- The key derivation of the PIN is set to its minimum in our rows, because its cost is chosen by the
  administrator. This affects the rows that begin with `start/`.

What the other modules do:

- They are used as their packages install them. SoftHSMv2 keeps objects in files, NSS in its database
  with its default key derivation. A newer version, or one with another crypto library, can be faster.
- Rows that end in `-session` use session keys and exist in the full mode only.
- Most of the time to make a token object is spent by the disk. Jeton waits for the disk before it answers.
  SoftHSMv2 does not, so it can be faster and promises less.

How results are checked:

- Both crypto libraries verify the signatures of each row before it is timed. In the `threads` groups they
  verify the last signature of each thread in each sample. For SLH-DSA both backends have the same code,
  which also verifies the signatures of the crate `slh-dsa`.

";
