//! The commands that measure (`pipeline`, `tls`), and those that read their results
//! (`report`, `compare`). Each scenario runs once. The other tests are about wrong options, outputs
//! that cannot be written, interrupts, stores of other versions, and modules that fail.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, driver, fails, has, modules, peer, run, says, succeed};
use jeton_peers::Known;
use roxmltree::Document;
use rusqlite::Connection;
use serde_json::Value;

struct Scenario {
    /// The command, with options for a short measurement.
    command: &'static [&'static str],
    /// A text in its printed table.
    row: &'static str,
    /// A part of the title of its page.
    title: &'static str,
    /// The options that name an output.
    outputs: &'static [&'static str],
}

const PIPELINE: Scenario = Scenario {
    command: &["pipeline", "--sizes", "1"],
    row: "ca_self_sign",
    title: "PKI pipeline",
    outputs: &["--json", "--results", "--db"],
};
const TLS: Scenario = Scenario {
    command: &[
        "tls",
        "--keys=p256",
        "--versions=1.3",
        "--exchanges=x25519",
        "--handshakes=full",
        "--threads=1",
    ],
    row: "p256 1.3 x25519 full",
    title: "TLS handshakes",
    outputs: &["--json", "--results"],
};
const SCENARIOS: [Scenario; 2] = [PIPELINE, TLS];

impl Scenario {
    /// Returns a measurement of one module that takes at least `seconds` for each combination.
    fn measure(&self, module: &str, seconds: &str) -> Command {
        let mut command = driver(self.command);
        command.args(["--module", module, "--min-seconds", seconds]);
        command
    }
}

/// Makes a store with a measurement of the pipeline.
fn measured(scratch: &Scratch) -> String {
    let store = scratch.file("store");
    succeed(PIPELINE.measure("in-process", "0").args(["--results", &store]));
    store
}

/// Writes the page of a store, and returns it. Fails if the page is not XML after its first line,
/// or if it may load or run something.
fn page(scratch: &Scratch, store: &str) -> String {
    const ELEMENTS: &str = "html head meta title style body h1 h2 dl dt dd section p div table thead tbody tr \
        th td figure figcaption svg g text rect line circle polyline polygon path defs clipPath desc use br span";
    let path = scratch.file("page.html");
    succeed(&mut driver(["report", store, "--html", &path]));
    let html = fs::read_to_string(path).expect("a page");
    let body = html.strip_prefix("<!DOCTYPE html>").expect("HTML");
    let document = Document::parse(body).unwrap_or_else(|error| panic!("{error}\n{html}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(ELEMENTS.split_whitespace().any(|element| element == name), "{name}");
        for attribute in node.attributes().map(|attribute| attribute.name()) {
            let loads = attribute.starts_with("on") || ["href", "src", "style"].contains(&attribute);
            assert!(!loads, "{attribute}");
        }
    }
    html
}

/// Returns every number of a JSON file that is called `value`.
fn values(path: &str) -> Vec<f64> {
    fn add(json: &Value, found: &mut Vec<f64>) {
        match json {
            Value::Object(members) => {
                found.extend(members.get("value").and_then(Value::as_f64));
                members.values().for_each(|member| add(member, found));
            }
            Value::Array(members) => members.iter().for_each(|member| add(member, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    let json = serde_json::from_str(&fs::read_to_string(path).expect("a report")).expect("JSON");
    add(&json, &mut found);
    found
}

/// One store keeps the measurements of all commands, and a report shows the newest.
#[test]
fn each_scenario_prints_its_table_and_writes_numbers_and_pages() {
    let scratch = Scratch::new();
    let [json, store] = ["json", "store"].map(|name| scratch.file(name));
    for scenario in SCENARIOS {
        for module in modules(&[Known::Jeton]) {
            let mut command = scenario.measure(module, "0");
            says(succeed(command.args(["--json", &json, "--results", &store])), scenario.row);
            let values = values(&json);
            let plausible = values.iter().all(|value| value.is_finite() && *value >= 0.0);
            assert!(plausible && values.iter().any(|value| *value > 0.0), "{values:?}");
            let html = page(&scratch, &store);
            assert!(html.contains(scenario.title) && html.contains("<svg"), "{html}");
            // The pipeline has a column for each module.
            assert!(scenario.row != PIPELINE.row || html.contains(">AWS-LC directly</th>"), "{html}");
        }
    }
}

#[test]
fn tls_measures_all_keys_and_names_those_that_a_module_lacks() {
    let scratch = Scratch::new();
    let json = scratch.file("json");
    let measure = |more: &[&str]| {
        succeed(driver(["tls", "--min-seconds", "0", "--threads", "1", "--json", &json]).args(more))
    };
    if peer(Known::Jeton).is_some() {
        let text = measure(&[]);
        assert!(text.contains(" ml-dsa-65 1.3 x25519mlkem768 resumed ") && !text.contains("ml-dsa-65 1.2"));
        // Full and resumed: four keys with three combinations of version and key exchange, ML-DSA
        // with two.
        let ratios = values(&json).into_iter().filter(|value| *value > 0.0).count();
        assert!(ratios >= (4 * 3 + 2) * 2, "{ratios}\n{text}");
    }
    if peer(Known::SoftHsm2).is_some() {
        let text = measure(&["--module", "softhsm2", "--keys", "p256,ml-dsa-65", "--versions", "1.3"]);
        assert!(text.contains("n/a: softhsm2 has no CKM_ML_DSA_KEY_PAIR_GEN for ml-dsa-65"), "{text}");
        assert!(text.contains(TLS.row), "{text}");
    }
}

#[test]
fn the_tables_of_the_pipeline_fit_100_columns_unless_they_are_wide() {
    let mut command = PIPELINE.measure("in-process", "0");
    for module in modules(&[Known::Jeton, Known::SoftHsm2, Known::Nss]) {
        command.args(["--module", module]);
    }
    let text = succeed(&mut command);
    assert!(
        text.lines().filter(|line| line.starts_with('│')).all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(!text.contains("items/s") && succeed(command.arg("--wide")).contains("items/s"), "{text}");
}

#[test]
fn two_result_stores_are_compared() {
    let scratch = Scratch::new();
    let stores = [scratch.file("before"), scratch.file("after")];
    for store in &stores {
        succeed(PIPELINE.measure("in-process", "0").args(["--results", store]));
    }
    let text = succeed(driver(["compare"]).args(&stores));
    let row = text.lines().find(|line| line.contains(PIPELINE.row)).expect("a row of this stage");
    for part in ["AWS-LC directly", "ecdsa-p256", " µs", " %"] {
        assert!(row.contains(part), "{row}");
    }
}

#[test]
fn the_pipeline_has_a_column_for_openssl_if_the_tool_was_built_with_it() {
    let (code, text) = run(&mut PIPELINE.measure("openssl", "0"));
    if cfg!(feature = "openssl") {
        assert!(code == 0 && text.contains("openssl: OpenSSL called directly"), "{text}");
    } else {
        assert!(code == 1 && text.contains("with the cargo feature `openssl`"), "{text}");
    }
}

#[test]
fn wrong_options_are_named_and_nothing_runs() {
    let scratch = Scratch::new();
    let file = scratch.file("text");
    fs::write(&file, "not a module").expect("the directory is writable");
    let in_tls = format!("jeton-driver: cannot load {file}: ");
    let unknown = r#"module "no-such-module" is neither a file nor one of"#;
    let cases: [(&[&str], i32, &str); 12] = [
        (&["pipeline", "--module", "no-such-module"], 2, unknown),
        (&["pipeline", "--ca-key-algo", "rsa1"], 2, r#"unknown algorithm "rsa1""#),
        (&["pipeline", "--ca-key-algo", "ed25519/x"], 2, r#"unknown algorithm "x""#),
        (&["pipeline", "--module", &file, "--pin", "1234"], 1, "FAILED: text: cannot load"),
        (&["tls", "--module", "no-such-module"], 2, unknown),
        (&["tls", "--module", &file, "--pin", "1234"], 1, &in_tls),
        (&["tls", "--keys", "rsa1"], 2, "possible values: rsa2048, p256, p384, ed25519, ml-dsa-65"),
        (&["tls", "--versions", "1.1"], 2, "possible values: 1.2, 1.3"),
        (&["tls", "--exchanges", "dh"], 2, "possible values: x25519, x25519mlkem768"),
        (&["tls", "--handshakes", "half"], 2, "possible values: full, resumed"),
        (&["tls", "--threads", "0"], 2, "0 is not in 1..=1024"),
        (&["report", &file], 2, "--html"),
    ];
    for (options, status, wanted) in cases {
        let (code, text) = run(&mut driver(options));
        assert!(code == status && text.contains(wanted), "{options:?}: {code}\n{text}");
    }
}

#[test]
fn outputs_are_opened_before_the_work_begins() {
    for scenario in SCENARIOS {
        for option in scenario.outputs {
            let started = Instant::now();
            let (code, text) = run(scenario.measure("in-process", "600").args([option, "/proc/none/file"]));
            assert!(code == 1 && !text.contains(scenario.row), "{option}: {text}");
            assert!(started.elapsed() < Duration::from_secs(60), "{option}");
        }
        says(
            fails(1, scenario.measure("in-process", "0").args(["--json", "/dev/full"])),
            "jeton-driver: /dev/full: No space left on device",
        );
    }
}

/// Starts a measurement, waits until it has a result, and interrupts it. Returns its output.
fn interrupt(command: &mut Command, has_a_result: impl Fn() -> bool) -> String {
    let mut child: Child = command.stdout(Stdio::piped()).spawn().expect("the tool starts");
    jeton_child::until(Duration::from_secs(120), "no result in 120 s", || {
        assert!(child.try_wait().is_ok_and(|status| status.is_none()), "the tool ended early");
        has_a_result()
    });
    succeed(Command::new("sh").args(["-c", "kill -INT $0", &child.id().to_string()]));
    let output = child.wait_with_output().expect("the tool ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(130), "{text}");
    text
}

#[test]
fn an_interrupt_keeps_and_prints_what_was_measured_and_leaves_no_file() {
    let scratch = Scratch::new();
    let temporary = scratch.file("tmp");
    fs::create_dir(&temporary).expect("the directory is fresh");
    for scenario in SCENARIOS {
        let store = scratch.file(scenario.command[0]);
        let mut command = scenario.measure("in-process", "600");
        command.args(["--results", &store]).env("TMPDIR", &temporary);
        let text = interrupt(&mut command, || runs(&store) > 0);
        assert!(text.contains("interrupted: ") && text.contains(scenario.row), "{text}");
        page(&scratch, &store);
        assert!(names(&temporary).is_empty());
    }
}

/// Returns the number of runs in a store; 0 if the store is not ready.
fn runs(store: &str) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = Connection::open_with_flags(store, flags);
    store
        .and_then(|store| store.query_row("SELECT count(*) FROM run", [], |row| row.get(0)))
        .unwrap_or_default()
}

/// Returns the sorted names in a directory.
fn names(path: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(path).expect("the directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// `ulimit -f` makes a write fail, as a full disk does. Its unit is 512 bytes.
#[test]
fn a_full_disk_ends_each_command_with_a_message_and_leaves_no_file() {
    let scratch = Scratch::new();
    let [temporary, store] = ["tmp", "store"].map(|name| scratch.file(name));
    fs::create_dir(&temporary).expect("the directory is fresh");
    let refused = format!("jeton-driver: {store}: ");
    let of_pipeline =
        "FAILED: AWS-LC directly: ecdsa-p256, batch of 512, round 1: db_insert_certs: database: ";
    let large: (&str, &[&str], &str) =
        ("400", &["pipeline", "--sizes", "512", "--min-seconds", "0"], of_pipeline);
    let with_store = SCENARIOS.map(|scenario| [scenario.command, &["--results", &store]].concat());
    let small = with_store.iter().map(|command| ("8", &command[..], &*refused));
    for (blocks, arguments, wanted) in std::iter::once(large).chain(small) {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\" --module in-process");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_jeton-driver")]).args(arguments);
        says(fails(1, command.env("TMPDIR", &temporary)), wanted);
        assert!(names(&temporary).is_empty());
        // The tool does not remove the store, which belongs to the user.
        for name in names(scratch.path()).iter().filter(|name| name.starts_with("store")) {
            fs::remove_file(scratch.file(name)).expect("a file");
        }
    }
    measured(&scratch);
    let (code, text) = run(&mut driver(["report", &store, "--html", "/dev/full"]));
    assert!(code == 1 && text.contains("jeton-driver: /dev/full: No space left on device"), "{text}");
    let full = fs::File::create("/dev/full").expect("a device");
    let output = driver(["compare", &store, &store]).stdout(full).output().expect("the tool starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("No space left on device"), "{text}");
}

#[test]
fn a_file_that_is_no_store_of_this_version_is_named_and_kept() {
    let scratch = Scratch::new();
    let (store, text, page) = (measured(&scratch), scratch.file("text"), scratch.file("page.html"));
    says(fails(2, &mut driver(["report", &store, "--html", &store])), "is the store itself");
    let set_version = Connection::open(&store).and_then(|store| store.pragma_update(None, "user_version", 7));
    set_version.expect("a change");
    fs::write(&text, "important").expect("the directory is writable");
    let of_version = "store: a result store of version 7; this tool reads version 5";
    for (file, wanted) in [(&store, of_version), (&text, "not a ")] {
        let before = fs::read(file).expect("a file");
        let readers = [driver(["report", file, "--html", &page]), driver(["compare", file, file])];
        let writers = SCENARIOS.map(|scenario| {
            let mut command = scenario.measure("in-process", "0");
            command.args(["--results", file]);
            command
        });
        for mut command in readers.into_iter().chain(writers) {
            says(fails(1, &mut command), wanted);
            assert_eq!(fs::read(file).expect("a file"), before, "{command:?}");
        }
    }
    let (code, text) = run(&mut driver(["report", &scratch.file("none"), "--html", &page]));
    assert!(code == 1 && text.contains("no result store can be opened"), "{text}");
    assert_eq!(names(scratch.path()), ["store", "text"]);
}

/// Every text of a store may come from another person.
#[test]
fn markup_in_a_store_is_shown_and_has_no_effect() {
    const HOSTILE: &str = "</svg></td><script>alert(1)</script><img src=x onerror=alert(1)>&\"'|\n# [x](javascript:alert(1))\u{0}\u{1b}";
    const TEXTS: [&str; 11] = [
        "measurement SET started = ?1 || started",
        "measurement SET about = json_set(about, '$.version', ?1)",
        "measurement SET about = json_set(about, '$.command', json_array(?1))",
        "measurement SET about = json_set(about, '$.machine.cpu', ?1, '$.machine.system', ?1)",
        "module SET name = ?1 || name",
        "module SET description = json_set(description, '$.description', ?1, '$.version', ?1)",
        "module SET description = json_set(description, '$.library', ?1)",
        "run SET module = ?1 || module",
        "run SET work = json_set(work, '$.algorithm', ?1)",
        "document SET algorithm = ?1 || algorithm",
        "document SET kind = ?1 || kind",
    ];
    let scratch = Scratch::new();
    let store = measured(&scratch);
    let headings = |html: &str| html.matches("<h2>").count();
    let expected = headings(&page(&scratch, &store));
    assert!(expected > 0);
    let connection = Connection::open(&store).expect("a store");
    for text in TEXTS {
        connection.execute(&format!("UPDATE {text}"), [HOSTILE]).expect("a change");
    }
    drop(connection);
    let html = page(&scratch, &store);
    assert_eq!(headings(&html), expected, "{html}");
}

#[test]
fn wrong_numbers_in_a_store_draw_no_wrong_plot() {
    let scratch = Scratch::new();
    let (store, none) = (measured(&scratch), scratch.file("none.html"));
    let change = |sample: &str| {
        let statement = format!("UPDATE run SET sample = {sample}");
        Connection::open(&store).and_then(|store| store.execute(&statement, [])).expect("a change");
    };
    // The stage `crl_build`.
    for number in ["0", "-1e-6"] {
        change(&format!("json_set(sample, '$[5].seconds', {number})"));
        page(&scratch, &store);
    }
    for (sample, wanted) in [
        ("json_set(sample, '$[5].seconds', 1e308)", "no measurement with a run"),
        ("json_set(sample, '$[5].seconds', -1)", "no measurement with a run"),
        ("'[]'", "jeton-driver: the store cannot be read"),
        ("'text'", "jeton-driver: the store cannot be read"),
    ] {
        change(sample);
        says(fails(1, &mut driver(["report", &store, "--html", &none])), wanted);
        assert!(!Path::new(&none).exists());
    }
}

/// The source of a module whose function list has only `C_Initialize`. The test replaces `BODY`.
const MODULE: &str = r#"
    #include <stdlib.h>
    #include <unistd.h>
    struct list { unsigned char version[2]; void *entry[68]; };
    static unsigned long initialize(void *arguments) { (void)arguments; BODY }
    static struct list list = { { 2, 40 }, { (void *)initialize } };
    unsigned long C_GetFunctionList(struct list **out) { *out = &list; return 0; }
"#;

#[test]
fn a_hostile_module_is_reported_and_the_baseline_goes_on() {
    let cases = [
        ("crashes", "abort();", "its process ended with signal: 6"),
        ("hangs", "for (;;) pause();", "reported nothing for 2 s"),
        ("refuses", "return 0x30;", "C_Initialize: CKR_DEVICE_ERROR (0x30) while initialising the module"),
        ("vendor", "return 0x80000042;", "C_Initialize: CKR vendor 0x80000042"),
        (
            "holes",
            "return 0;",
            "C_GetInfo: CKR_FUNCTION_NOT_SUPPORTED (0x54) while reading the function list",
        ),
    ];
    let scratch = Scratch::new();
    for (name, body, expected) in cases {
        let [source, module] = ["c", "so"].map(|extension| scratch.file(&format!("{name}.{extension}")));
        fs::write(&source, MODULE.replace("BODY", body)).expect("the directory is writable");
        succeed(Command::new("cc").args(["-shared", "-fPIC", "-o", &module, &source]));
        let mut command = PIPELINE.measure(&module, "0");
        let (code, text) = run(command.args(["--stall-seconds", "2", "--pin", "1234"]));
        assert!(code == 1 && text.contains(&format!("FAILED: {name}: {expected}")), "{text}");
        assert!(text.contains("medians; runs: AWS-LC directly 6"), "{text}");
    }
}

#[test]
fn the_driver_reports_that_its_module_is_missing() {
    let scratch = Scratch::new();
    // The driver also searches the directory above its own.
    let copy = scratch.file("bin/jeton-driver");
    fs::create_dir(scratch.file("bin")).expect("a directory");
    // `cp` writes the file: a child that another thread forks meanwhile could hold a file open that
    // this test writes, and the file could not be executed.
    succeed(Command::new("cp").arg(env!("CARGO_BIN_EXE_jeton-driver")).arg(&copy));
    says(
        fails(1, Command::new(&copy).args(["pipeline", "--sizes", "1"])),
        "libjeton_pkcs11.so is not beside this program",
    );
}

#[test]
fn a_wrong_pin_is_reported_by_function_and_code_and_an_existing_token_stays_empty() {
    let Some(library) = peer(Known::SoftHsm2).filter(|_| has("softhsm2-util")) else { return };
    let scratch = Scratch::new();
    let (tokens, conf) = (scratch.file("tokens"), scratch.file("softhsm2.conf"));
    fs::create_dir(&tokens).expect("the directory is fresh");
    fs::write(&conf, format!("directories.tokendir = {tokens}\n")).expect("the directory is writable");
    let measure = |arguments: &[&str], pin: &str| {
        let mut command = driver(arguments);
        command.arg("--module").arg(&library).env("SOFTHSM2_CONF", &conf).env("JETON_PIN", pin);
        run(&mut command)
    };
    let mut init = Command::new("softhsm2-util");
    init.args(["--init-token", "--free", "--label", "ca", "--so-pin", "12345678", "--pin", "87654321"]);
    succeed(init.env("SOFTHSM2_CONF", &conf));
    let wrong = "C_Login: CKR_PIN_INCORRECT (0xA0) while logging in as the user";
    for command in [PIPELINE.command, TLS.command] {
        let arguments = [command, &["--min-seconds", "0", "--token-label", "ca"]].concat();
        let (code, text) = measure(&arguments, "87654321");
        assert_eq!(code, 0, "{text}");
        let (code, text) = measure(&arguments, "11111111");
        assert!(code == 1 && text.contains(wrong), "{text}");
        let files = fs::read_dir(&tokens).expect("the directory").flatten().map(|token| token.path());
        let objects = files.flat_map(|token| fs::read_dir(token).expect("a token")).flatten();
        let objects = objects.filter(|file| file.file_name() != "token.object");
        assert_eq!(objects.filter(|file| file.path().extension() == Some("object".as_ref())).count(), 0);
    }
    let (code, text) = measure(&[TLS.command, &["--token-label", "x"]].concat(), "87654321");
    assert!(code == 1 && text.contains("the module has no token \"x\""), "{text}");
}

#[test]
fn the_driver_loads_a_module_before_it_asks_for_the_pin() {
    // `setsid` takes the terminal away, if the tests have one.
    let asking = |module: &Path| {
        let mut command = Command::new("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_jeton-driver"), "pipeline", "--module"]).arg(module);
        run(command.env_remove("JETON_PIN").stdin(Stdio::null()))
    };
    let (code, text) = asking(Path::new("/etc/passwd"));
    assert!(code == 1 && text.contains("cannot load /etc/passwd") && !text.contains("PIN"), "{text}");
    if let Some(library) = peer(Known::SoftHsm2) {
        let (code, text) = asking(&library);
        assert!(code == 1 && text.contains("no PIN: give --pin, JETON_PIN, or a terminal"), "{text}");
    }
}
