//! The pages that `jeton report` writes from result stores, also from hostile ones.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Scratch, has, jeton, run, succeed};
use roxmltree::Document;
use rusqlite::{Connection, params};

/// Measures into a store, and returns its path.
fn measured(scratch: &Scratch) -> String {
    let store = scratch.file("store");
    let mut command = jeton(["pipeline", "--module", "in-process", "--sizes", "1,4", "--min-seconds", "0"]);
    succeed(command.args(["--ca-key-algo", "ecdsa-p256,ed25519", "--results", &store]));
    store
}

/// Writes the HTML page and the Markdown page of a store, and returns both.
fn pages(scratch: &Scratch, store: &str) -> (String, String) {
    let (html, markdown) = (scratch.file("page.html"), scratch.file("page.md"));
    succeed(&mut jeton(["report", store, "--html", &html, "--markdown", &markdown]));
    (fs::read_to_string(html).expect("a page"), fs::read_to_string(markdown).expect("a page"))
}

/// Parses a page as XML. The first line is the document type of HTML.
fn parsed(html: &str) -> Document<'_> {
    let body = html.strip_prefix("<!DOCTYPE html>").expect("HTML");
    Document::parse(body).unwrap_or_else(|error| panic!("{error}\n{html}"))
}

fn count(document: &Document<'_>, name: &str) -> usize {
    document.descendants().filter(|node| node.tag_name().name() == name).count()
}

/// Fails if a page loads or runs something, or has an element that is not in this list.
fn loads_nothing(document: &Document<'_>) {
    const ELEMENTS: [&str; 37] = [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "dl",
        "dt",
        "dd",
        "section",
        "p",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "figcaption",
        "svg",
        "g",
        "text",
        "rect",
        "line",
        "circle",
        "polyline",
        "polygon",
        "path",
        "defs",
        "clipPath",
        "desc",
        "use",
        "br",
        "span",
    ];
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(ELEMENTS.contains(&name), "{name}");
        for attribute in node.attributes() {
            let attribute = attribute.name();
            assert!(
                !attribute.starts_with("on") && !["href", "src", "style"].contains(&attribute),
                "{attribute}"
            );
        }
    }
}

#[test]
fn a_page_has_the_tables_and_plots_of_the_newest_measurement() {
    let scratch = Scratch::new();
    let store = measured(&scratch);
    let (html, markdown) = pages(&scratch, &store);
    let document = parsed(&html);
    loads_nothing(&document);
    // Modules, algorithms, sizes, and the throughput of two algorithms.
    assert_eq!(count(&document, "svg"), 5);
    // Modules, signatures, algorithms (two tables), sizes, and the stages of each of two
    // algorithms.
    assert_eq!(count(&document, "table"), 7);
    let text: String = document.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().join("\n");
    for wanted in [
        "in-process",
        "ocsp_sign",
        "ecdsa-p256",
        "Sizes of the signed documents",
        "certificates per second",
        "certificates per batch",
        "batch of 4",
        "OCSP response",
        "--ca-key-algo",
        "prefers-color-scheme:dark",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    for plot in document.descendants().filter(|node| node.tag_name().name() == "svg") {
        assert!(plot.attribute("aria-label").is_some_and(|label| !label.is_empty()));
        assert!(plot.descendants().any(|node| node.tag_name().name() == "circle"));
    }
    assert_eq!(markdown.matches("](data:image/svg+xml;base64,").count(), 5);
    assert!(
        markdown.contains("\n## Stages&#58; ed25519\n")
            && markdown.contains("\n| stage | in-process, batch of 1 |"),
        "{markdown}"
    );
    assert_eq!(markdown.matches("\n|---|").count(), 7);
}

#[test]
fn the_backends_of_jeton_are_compared_if_a_store_has_several() {
    let scratch = Scratch::new();
    let store = measured(&scratch);
    let connection = Connection::open(&store).expect("a store");
    let copied = "
        INSERT INTO measurement SELECT 2, started, tool_version, '[\"jeton\",\"--backend\",\"rustcrypto\"]', cpu, cores,
            memory_kib, system, threads, rsa_key_pool FROM measurement;
        INSERT INTO sample SELECT 2, 'jeton', algorithm, size, round, stage, seconds, parts FROM sample;
        INSERT INTO sample SELECT 1, 'jeton', algorithm, size, round, stage, 2 * seconds, parts FROM sample
            WHERE measurement = 1;";
    connection.execute_batch(copied).expect("another measurement");
    drop(connection);
    let (html, _) = pages(&scratch, &store);
    let text: Vec<_> = parsed(&html)
        .descendants()
        .filter_map(|node| node.text())
        .map(|text| text.trim().to_owned())
        .collect();
    for wanted in ["The backends of Jeton", "jeton, aws-lc", "jeton, rustcrypto"] {
        assert!(text.iter().any(|one| one == wanted), "{wanted}");
    }
}

/// Every text of a store may come from another person.
#[test]
fn markup_in_a_store_is_shown_and_has_no_effect() {
    const HOSTILE: &str = "</svg></td><script>alert(1)</script><img src=x onerror=alert(1)>&\"'|\n# [x](javascript:alert(1))\u{0}\u{1b}";
    let scratch = Scratch::new();
    let store = measured(&scratch);
    let connection = Connection::open(&store).expect("a store");
    for column in ["started", "tool_version", "command", "cpu", "system"] {
        connection.execute(&format!("UPDATE measurement SET {column} = ?1"), [HOSTILE]).expect("a change");
    }
    connection
        .execute("UPDATE module SET name = ?1, description = ?1, library = ?1", [HOSTILE])
        .expect("a change");
    connection.execute("UPDATE sample SET module = ?1 || module", [HOSTILE]).expect("a change");
    connection.execute("UPDATE sample SET algorithm = ?1 || algorithm", [HOSTILE]).expect("a change");
    connection
        .execute("UPDATE document SET algorithm = ?1 || algorithm, kind = ?1 || kind", [HOSTILE])
        .expect("a change");
    drop(connection);
    let (html, markdown) = pages(&scratch, &store);
    loads_nothing(&parsed(&html));
    assert!(!markdown.contains("<script") && !markdown.contains("<img") && !markdown.contains("[x]("));
    assert_eq!(markdown.lines().filter(|line| line.starts_with('#')).count(), 1 + 7, "{markdown}");
}

#[test]
fn wrong_numbers_in_a_store_draw_no_wrong_plot() {
    let scratch = Scratch::new();
    let store = measured(&scratch);
    let change = |statement: &str| {
        Connection::open(&store).expect("a store").execute(statement, params![]).expect("a change");
    };
    for number in ["0", "-1", "1e308", "9e999", "-9e999"] {
        change(&format!("UPDATE sample SET seconds = {number} WHERE stage = 'cert_gen'"));
        loads_nothing(&parsed(&pages(&scratch, &store).0));
    }
    // No positive time is left.
    change("UPDATE sample SET seconds = 0");
    let (code, text) = run(&mut jeton(["report", &store, "--html", &scratch.file("none.html")]));
    assert!(code == 1 && text.contains("no measurement with a run"), "{text}");
    assert!(!Path::new(&scratch.file("none.html")).exists());
    change("UPDATE sample SET seconds = 'text'");
    let (code, text) = run(&mut jeton(["report", &store, "--html", &scratch.file("none.html")]));
    assert!(code == 1 && text.contains("jeton: "), "{text}");
}

#[test]
fn a_store_of_another_version_and_a_wrong_output_are_refused() {
    let scratch = Scratch::new();
    let store = measured(&scratch);
    let html = scratch.file("page.html");
    let refused = |store: &str, html: &str, wanted: &str| {
        let (code, text) = run(&mut jeton(["report", store, "--html", html]));
        assert!(code == 1 && text.contains(wanted), "{text}");
    };
    refused(&store, "/proc/none/page.html", "/proc/none/page.html");
    let (code, text) = run(&mut jeton(["report", &store, "--html", &store]));
    assert!(code == 2 && text.contains("is the store itself"), "{text}");
    refused(&scratch.file("none"), &html, "no result store can be opened");
    Connection::open(&store).expect("a store").pragma_update(None, "user_version", 1).expect("a change");
    refused(&store, &html, "a result store of version 1; this tool reads version 3");
    fs::write(scratch.file("text"), "text").expect("a file");
    refused(&scratch.file("text"), &html, "not a result store");
    assert!(!Path::new(&html).exists());
    let (code, _) = run(&mut jeton(["report", &store]));
    assert_eq!(code, 2);
}

/// Opens the page in Chromium in light and dark mode, if Chromium is installed
/// (`apt-get install chromium`). CI does not install it, because of its size.
#[test]
fn chromium_shows_the_page_in_light_and_dark_mode() {
    if !has("chromium", "--version") {
        return;
    }
    let scratch = Scratch::new();
    pages(&scratch, &measured(&scratch));
    // Blink's numbers: 0 is dark, 1 is light.
    let shots = ["1", "0"].map(|scheme| {
        let shot = scratch.file(&format!("page-{scheme}.png"));
        let mut command = Command::new("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1600"]);
        command.arg(format!("--user-data-dir={}", scratch.file("profile")));
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--screenshot={shot}")).arg(format!("file://{}", scratch.file("page.html")));
        succeed(&mut command);
        fs::read(shot).expect("a screenshot")
    });
    let [light, dark] = shots;
    assert!(light.starts_with(b"\x89PNG") && dark.starts_with(b"\x89PNG"));
    assert!(light != dark, "both modes look the same");
}
