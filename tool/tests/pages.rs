//! The commands of docs/tool.md, docs/admin.md, docs/start/ca.md, docs/shares.md and
//! docs/tutorial-pq-ca.md, run in a fresh directory as a reader would.

mod common;

use common::*;

#[test]
fn the_commands_of_the_page_of_the_tool_run() {
    let blocks = blocks(include_str!("../../docs/tool.md"));
    assert!(blocks.matches("\njeton ").count() > 40, "{blocks}");
    run_page(&with_refusals(include_str!("../../docs/tool.md")));
}

#[test]
fn the_commands_of_the_table_of_tasks_run() {
    let (page, _) = admin();
    let commands = commands_of_the_table(page);
    assert!(commands.len() > 40, "{commands:?}");
    if peer(Known::SoftHsm2).is_none() || !has("softhsm2-util") || !has("pk12util") {
        return;
    }
    run_page(&[blocks(page), commands.join("\n")].concat());
}

#[test]
fn the_commands_of_the_chapters_for_administrators_run() {
    let (_, chapters) = admin();
    let variables = "export JETON_DIR=$PWD/tokens JETON_PIN=87654321 JETON_SO_PIN=12345678\n";
    run_page_with(Configured::ByThePage, &[variables, &with_refusals(chapters)].concat());
}

#[test]
fn the_commands_of_the_page_for_a_ca_run() {
    run_page(&with_refusals(include_str!("../../docs/start/ca.md")));
}

#[test]
fn the_commands_of_the_page_of_shares_run() {
    if has("ssh-keygen") {
        run_page(&with_refusals(include_str!("../../docs/shares.md")));
    }
}

/// Returns the commands of a page. One with `!` must fail, which bash with `-e` does not check.
fn with_refusals(page: &str) -> String {
    let commands = blocks(page).replace("\n! ", "\nrefused ");
    assert!(commands.contains("\nrefused "), "{commands}");
    ["refused() { if \"$@\"; then exit 1; fi; }\n", &commands].concat()
}

#[test]
fn the_commands_of_the_tutorial_run() {
    const NEEDS: &str = "openssl version | grep -E 'OpenSSL (3[.][5-9]|[4-9])' \
                         && openssl list -providers -provider pkcs11";
    let ready = Command::new("sh").args(["-c", NEEDS]).output().is_ok_and(|output| output.status.success());
    if !ready {
        return skip("no OpenSSL 3.5 with pkcs11-provider: Debian 13 has both");
    }
    let script = blocks(include_str!("../../docs/tutorial-pq-ca.md"));
    run_page_with(Configured::ByThePage, &script);
}

/// Returns the two parts of the page for administrators: the part with the table of tasks, and the
/// chapters.
fn admin() -> (&'static str, &'static str) {
    include_str!("../../docs/admin.md").split_once("<!-- chapters -->").expect("a marker")
}

#[test]
fn every_row_of_the_table_of_tasks_has_a_command() {
    let page = include_str!("../../docs/admin.md");
    let rows = page
        .lines()
        .skip_while(|line| *line != "<!-- tasks -->")
        .take_while(|line| *line != "<!-- tasks end -->");
    // The heading and the line below it are not rows.
    let rows = rows.filter(|line| line.starts_with('|')).skip(2);
    for row in rows {
        assert_eq!(row.matches('|').count(), 7, "{row}");
        assert!(row.split('|').nth(2).is_some_and(|cell| cell.trim().starts_with("`jeton")), "{row}");
    }
}

fn blocks(page: &str) -> String {
    let (mut inside, mut script) = (false, String::from("\n"));
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => script += &format!("{line}\n"),
            _ => {}
        }
    }
    script
}

fn commands_of_the_table(page: &str) -> Vec<String> {
    let cells = page.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(2));
    cells
        .filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`'))
        .filter(|cell| cell.starts_with("jeton "))
        // The PIN records of the test are weak. `jeton doctor` reports this and exits with status
        // 1.
        .map(|cell| cell.to_owned() + if cell.starts_with("jeton doctor") { " || [ $? = 1 ]" } else { "" })
        .collect()
}

/// Which file configures the module.
#[derive(PartialEq, Eq)]
enum Configured {
    /// A file with the cheapest key derivation, which makes the logins fast.
    ByTheTest,
    /// The files that the page writes.
    ByThePage,
}

fn run_page(script: &str) {
    run_page_with(Configured::ByTheTest, script);
}

fn run_page_with(configured: Configured, script: &str) {
    let Some(module) = peer(Known::Jeton) else { return };
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new();
    let tool = Path::new(env!("CARGO_BIN_EXE_jeton")).parent().expect("a folder");
    let path = format!("{}:{}", tool.display(), std::env::var("PATH").expect("PATH"));
    let mut command = Command::new("bash");
    command.args(["-euxo", "pipefail", "-c", script]).current_dir(scratch.path()).stdin(Stdio::null());
    command.env_clear().env("PATH", path).env("HOME", scratch.path());
    command.env("JETON_MODULE", module);
    if configured == Configured::ByTheTest {
        fs::write(scratch.file("conf"), "[pin]\nmemory-kib = 8\npasses = 1\n").expect("a file");
        command.env("JETON_CONF", scratch.file("conf"));
    }
    succeed(&mut command);
}
