//! `jeton parse` compares the libraries that read certificates.
#![cfg(feature = "parse")]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, jeton, run, succeed};

#[test]
fn all_libraries_read_the_roots_of_mozilla_and_the_certificates_of_the_pipeline() {
    let scratch = Scratch::new();
    let json = scratch.file("json");
    let mut command = jeton(["parse", "--sets", "mozilla,pipeline", "--min-seconds", "0", "--json", &json]);
    let text = succeed(&mut command);
    assert!(!text.contains("refuses"), "{text}");
    for part in ["mozilla", "ed25519", "ml-dsa-65", "rsa4096", "crl of 1024", "ocsp", "synta-certificate"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let report = std::fs::read_to_string(&json).expect("the report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let sets = report["sets"].as_array().expect("a list");
    // The roots, ten algorithms, the CRL and the OCSP response.
    assert_eq!(sets.len(), 13);
    assert!(sets[0]["count"].as_u64().expect("a number") > 100);
    // Three libraries with three operations; OpenSSL with two.
    let rows = if cfg!(feature = "openssl") { 11 } else { 9 };
    assert_eq!(sets[0]["rows"].as_array().map(Vec::len), Some(rows));
    for row in sets.iter().flat_map(|set| set["rows"].as_array().expect("a list")) {
        assert!(row["seconds"]["value"].as_f64().expect("a number") > 0.0, "{row}");
        assert_eq!(
            row["ratio"].is_null(),
            row["library"].as_str().expect("a name").starts_with("x509-") && row["library"] != "x509-parser"
        );
    }
}

#[test]
fn wrong_options_and_a_full_disk_are_reported() {
    let (code, text) = run(&mut jeton(["parse", "--sets", "debian"]));
    assert!(
        code == 2 && text.contains("unknown set \"debian\"; known are mozilla, pipeline, hierarchy"),
        "{text}"
    );
    let mut command = jeton(["parse", "--sets", "mozilla", "--min-seconds", "0", "--json", "/dev/full"]);
    let (code, text) = run(&mut command);
    assert!(code == 1 && text.contains("jeton: /dev/full: No space left on device"), "{text}");
}

#[test]
fn an_interrupt_prints_what_was_measured() {
    let scratch = Scratch::new();
    let json = scratch.file("json");
    let mut command = jeton(["parse", "--sets", "mozilla", "--min-seconds", "600", "--json", &json]);
    let child = command.stdout(Stdio::piped()).spawn().expect("the tool starts");
    let end = Instant::now() + Duration::from_secs(60);
    while !std::path::Path::new(&json).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The handler is installed right after the file is created.
    std::thread::sleep(Duration::from_secs(1));
    succeed(Command::new("sh").args(["-c", "kill -INT $0", &child.id().to_string()]));
    let output = child.wait_with_output().expect("the tool has ended");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("interrupted: ") && text.contains("mozilla"), "{text}");
}
