//! `docs/design.md` is a map of the repository. This test finds its names that no longer exist.

use std::path::Path;

/// Places in names that a reader fills in.
const EXAMPLE: &str = "NAME";

/// Returns the words between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn exists(path: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    path.exists() || path.with_added_extension("rs").exists()
}

#[test]
fn each_file_of_the_map_exists() {
    let page = include_str!("../docs/design.md");
    let (_, map) = page.split_once("## The map of files").expect("the map");
    let rows: Vec<_> = map.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | ")).collect();
    assert!(rows.len() > 50, "{} rows", rows.len());
    for (folders, files) in rows {
        let folders: Vec<_> = folders.split('`').step_by(2).filter(|folder| folder.contains('/')).collect();
        for folder in &folders {
            assert!(exists(folder), "the folder {folder}");
        }
        for file in code(files) {
            let is_there = folders.iter().any(|folder| exists(&format!("{folder}{file}")));
            assert!(is_there || exists(file), "{file} in {folders:?}");
        }
    }
}

#[test]
fn each_path_of_the_page_exists() {
    let page = include_str!("../docs/design.md");
    let (text, _) = page.split_once("## The map of files").expect("the map");
    let top = ["abi/", "agent/", "benches/", "ca/", "client/", "conformance/", "crypto/", "docs/", "driver/"];
    let more = ["http/", "names/", "secret/", "src/", "tests/", "tool/", "words/"];
    let paths = code(text).filter(|path| !path.contains(EXAMPLE) && !path.contains(' '));
    let paths = paths.filter(|path| top.iter().chain(&more).any(|folder| path.starts_with(folder)));
    let missing: Vec<_> = paths.filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
