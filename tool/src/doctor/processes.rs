//! The processes that have a token open, and the modules that they loaded (`/proc`). A user can
//! examine only their own processes. Root can examine all processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const MODULE: &str = "libjeton_pkcs11.so";

/// Finds processes that use the token with a module file that was replaced. If there are none,
/// finds processes that use the token with different module files. Returns problems and remedies.
pub(super) fn of_other_versions(token: &Path) -> Vec<(String, String)> {
    let modules = modules_of(token);
    let mut found = Vec::new();
    for (module, processes) in modules.iter().filter(|(module, _)| module.ends_with(" (deleted)")) {
        found.push((
            format!("the processes {processes} still use a module that was replaced: {module}"),
            format!("restart the processes {processes}"),
        ));
    }
    if modules.len() > 1 && found.is_empty() {
        let all: Vec<_> =
            modules.iter().map(|(module, processes)| format!("{module} ({processes})")).collect();
        found.push((
            format!("several files of the module use this token: {}", all.join(", ")),
            "install one version and restart the processes".to_owned(),
        ));
    }
    found
}

/// Returns the modules of the processes that have the token open, each with its processes.
fn modules_of(token: &Path) -> BTreeMap<String, String> {
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    let Ok(token) = fs::canonicalize(token) else { return modules };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let name = process.file_name().into_string().unwrap_or_default();
        let mut descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let is_token =
            |descriptor: fs::DirEntry| fs::read_link(descriptor.path()).is_ok_and(|open| open == token);
        if name.bytes().all(|byte| byte.is_ascii_digit()) && descriptors.any(is_token) {
            for module in loaded(&process.path()) {
                let processes = modules.entry(module).or_default();
                if !processes.is_empty() {
                    processes.push_str(", ");
                }
                processes.push_str(&name);
            }
        }
    }
    modules
}

fn loaded(process: &Path) -> Vec<String> {
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    // proc(5): the path is the rest of the line and begins with a slash.
    let paths = maps.lines().filter_map(|line| Some(line[line.find('/')?..].to_owned()));
    let mut paths: Vec<_> = paths.filter(|path| path.contains(MODULE)).collect();
    paths.sort();
    paths.dedup();
    paths
}
