//! `docs/benchmarks.md`.

use std::fmt::Write;
use std::process::Command;

use jeton_laboratory::{Machine, Table};

use super::data::Data;
use super::{losses, markdown, tables};
use crate::names::shown;

pub fn page(data: &Data) -> String {
    let mut text = String::from(INTRODUCTION);
    for (title, prefixes) in SECTIONS {
        section(&mut text, title, &tables::compared(data, prefixes));
    }
    text.push_str(PLOTS);
    text.push_str(&latency(data));
    text.push_str(&startup(data));
    text.push_str(&run(data));
    text.push_str(METHOD);
    let slower = losses::list(data);
    section(&mut text, "Where Jeton is slower", &format!("{SLOWER}{slower}"));
    text.truncate(text.trim_end().len());
    text + "\n"
}

const INTRODUCTION: &str = "\
# Benchmarks

The time of each operation with Jeton, with AWS-LC called directly (the baseline), and with SoftHSMv2, NSS, Kryoptic
and Craton HSM. `cargo bench -- sign/p256` measures one operation again. After a complete run, `cargo run --release -p
jeton-benches -- report` writes this page, [every row](benchmarks/rows.md) and the plots.
[performance.md](benchmarks/performance.md) counts the instructions that Jeton adds.

A module has a column if `cargo bench` finds it. [`client/peers/build`](../client/peers/build) builds Kryoptic and
Craton HSM outside the tree; `KRYOPTIC_MODULE` and `CRATON_MODULE` name their files. The keys of a module are token
objects or session objects, as it is faster. A dash means that the module lacks the operation, or that it could not be
measured: the last column of `rows.tsv` says why.

";

const PLOTS: &str = "\
## Plots

![Time of one search by label, by number of objects](benchmarks/search.svg)

![P-256 signatures per second by number of threads, one session each](benchmarks/threads.svg)

![Time relative to AWS-LC called directly, for each operation](benchmarks/overhead.svg)

";

const SLOWER: &str = "\
The operations in which Jeton is more than 1 % slower than the baseline (by this percentage), or slower than another
module (its row).

";

const SECTIONS: &[(&str, &[&str])] = &[
    ("Signatures", &["sign/"]),
    ("Verification", &["verify/"]),
    ("Keys", &["generate/", "kem/"]),
    (
        "Encryption, digests, MACs, random bytes",
        &["aes-gcm/", "aes-gcm-message/", "chacha20-poly1305/", "sha", "hmac-sha256/", "random/"],
    ),
    ("Sessions and single objects", &["session/", "object/", "first-use/"]),
    ("Searches among session objects", &["search/session/"]),
    ("Searches among token objects", &["search/token/"]),
    ("Start, by number of token objects", &["start/"]),
    ("Threads: time in which each thread does one operation", &["threads/p256", "threads/create"]),
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
        first_line_of(Command::new("rustc").arg("--version")),
        aws_lc_version(),
        format!("cargo bench {}", run.command.replace("--bench", "").trim()).trim(),
        first_line_of(Command::new("date").args(["--utc", "+%Y-%m-%d", "-d", &format!("@{}", run.started)])),
        run.seconds,
    );
    for row in run.rows.iter().filter(|row| !row.ours) {
        // The versions of the packages are on a line of their own.
        let description = row.description.replacen("; ", ";\n  ", 1);
        writeln!(text, "- `{}`: {description}", row.name).expect("a string");
    }
    text + "\n"
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

const METHOD: &str = "\
## Method

- The bench times the functions of the module and nothing else, in one process. All arguments are prepared beforehand.
  Within an operation the rows run one after the other, each module through its own function list.
- The baseline runs first and again at the end (`baseline-again`), and the tables have the mean. If the two differ, the
  load of the machine changed. The speed of `jeton` relative to the baseline is measured in 40 turns of some
  milliseconds for each side, in changing order, and is the median of their ratios. A shared machine disturbs it less
  than rows that run one after the other.
- The baseline does the same work as the token's function: ECDSA as r || s over a digest, `RSA_sign`, and hedged ML-DSA
  with the expanded key, below the EVP interface. It checks nothing, searches nothing and has no sessions. It generates
  a parsed key but no object. For SLH-DSA it is the crate `slh-dsa`.
- For AES-GCM the key is set up beforehand. Each message has a new nonce in every row, because GCM requires it.
- `jeton` is Jeton as users get it, with AWS-LC, and with keys that are private and sensitive token objects; `jeton-rc`
  has the RustCrypto backend. The crypto of `jeton-null` computes nothing, so this row shows Jeton's own cost. The key
  derivation of the PIN is set to its minimum, which affects the start.
- The other modules are used as their packages install them. Rows that end in `-session` use session keys. A newer
  version, or one with another crypto library, can be faster. Most of the time to make a token object is the disk's.
  Jeton waits for it before it answers; SoftHSMv2 does not, so it promises less.
- The objects of the searches are made within a limit of time, so a slow module is left out of the larger sizes. More
  threads than cores show the cost of waiting, not the effect of more cores.
- Both crypto libraries verify the signatures of each row before it is timed. With threads, they verify the last
  signature of each thread in each sample. For SLH-DSA both backends have the same code, which also verifies the
  signatures of the crate `slh-dsa`.

";
