//! The commands of docs/tool.md and docs/admin.md, run in a fresh directory as a reader would.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Scratch, has, peer, succeed};
use jeton_peers::Known;

#[test]
fn the_commands_of_the_page_of_the_tool_run() {
    let blocks = blocks(include_str!("../../docs/tool.md"));
    assert!(blocks.matches("\njeton ").count() > 40, "{blocks}");
    run_page(&blocks);
}

#[test]
fn the_commands_of_the_table_of_tasks_run() {
    let page = include_str!("../../docs/admin.md");
    let commands = commands_of_the_table(page);
    assert!(commands.len() > 25, "{commands:?}");
    run_page(&[blocks(page), commands.join("\n")].concat());
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
        assert!(row.split('|').nth(2).is_some_and(|cell| cell.trim().starts_with("`jeton ")), "{row}");
    }
}

/// The contents of the `sh` blocks of a page.
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

fn commands_of_the_table(page: &str) -> Vec<&str> {
    let cells = page.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(2));
    cells
        .filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`'))
        .filter(|cell| cell.starts_with("jeton "))
        .collect()
}

fn run_page(script: &str) {
    if peer(Known::Jeton).is_none() || !has("openssl", "version") {
        return;
    }
    let scratch = Scratch::new();
    let tool = Path::new(env!("CARGO_BIN_EXE_jeton")).parent().expect("a folder");
    let path = format!("{}:{}", tool.display(), std::env::var("PATH").expect("PATH"));
    let mut command = Command::new("bash");
    command.args(["-euxo", "pipefail", "-c", script]).current_dir(scratch.path()).stdin(Stdio::null());
    command.env_clear().env("PATH", path).env("HOME", scratch.path());
    // The page sets its own token directory. The cheapest key derivation makes the logins fast.
    std::fs::write(scratch.file("conf"), "[pin]\nmemory-kib = 8\npasses = 1\n").expect("a file");
    succeed(command.env("JETON_CONF", scratch.file("conf")));
}
