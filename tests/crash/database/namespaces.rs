//! A network namespace for each host, all connected to one bridge. They are removed at the end,
//! also after a failure. The next run removes those of a run that was killed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The address of the bridge, where a server listens. RFC 2544 reserves this network for tests.
pub const SERVER: &str = "198.18.0.1";
/// The beginning of the names. The process number follows.
const PREFIX: &str = "jeton-";
/// The number of hosts in each network of 256 addresses.
const EACH: usize = 200;

pub struct Namespaces {
    process: u32,
    count: usize,
}

impl Namespaces {
    /// Makes namespaces. Returns `None` if this process may not.
    pub fn make(count: usize) -> Option<Self> {
        remove_leftovers();
        // Dropping this value removes what was made, if only a part could be made.
        let made = Self { process: std::process::id(), count };
        let bridge = bridge(made.process);
        let mut commands = format!(
            "link add {bridge} type bridge\naddr add {SERVER}/16 dev {bridge}\nlink set {bridge} up\n"
        );
        for host in 0..count {
            let (name, link) = (made.name(host), made.link(host));
            commands += &format!(
                "netns add {name}\nlink add {link} type veth peer name eth0 netns {name}\n\
                 link set {link} master {bridge} up\n"
            );
        }
        let connect = |host: usize| {
            let commands =
                format!("addr add {}/16 dev eth0\nlink set eth0 up\nlink set lo up\n", address(host));
            ip(&["-n", &made.name(host)], &commands)
        };
        (ip(&[], &commands) && (0..count).all(connect)).then_some(made)
    }

    pub fn name(&self, host: usize) -> String {
        format!("{PREFIX}{}-{host}", self.process)
    }

    /// The name of the link from the bridge to a host.
    pub fn link(&self, host: usize) -> String {
        format!("{}h{host}", bridge(self.process))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        (0..self.count).for_each(|host| remove(&self.name(host)));
        remove_bridge(self.process);
    }
}

/// The address of a host.
pub fn address(host: usize) -> String {
    format!("198.18.{}.{}", 1 + host / EACH, 1 + host % EACH)
}

fn bridge(process: u32) -> String {
    format!("jt{process}")
}

/// Runs these commands of `ip`. Returns whether all of them succeeded.
fn ip(options: &[&str], commands: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(options).args(["-batch", "-"]).stdin(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return false };
    let written = child.stdin.take().expect("a pipe").write_all(commands.as_bytes());
    child.wait().is_ok_and(|status| status.success()) && written.is_ok()
}

/// Kills the processes of a namespace, which this test started, and removes it.
fn remove(name: &str) {
    if !Path::new("/run/netns").join(name).exists() {
        return;
    }
    let found = Command::new("ip").args(["netns", "pids", name]).output();
    let processes =
        found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
    for process in processes.split_whitespace() {
        // The process may have ended meanwhile.
        let _ = Command::new("kill").args(["-KILL", process]).status();
    }
    ip(&[], &format!("netns del {name}\n"));
}

fn remove_bridge(process: u32) {
    let name = bridge(process);
    if Path::new("/sys/class/net").join(&name).exists() {
        ip(&[], &format!("link del {name}\n"));
    }
}

/// Removes the namespaces of test processes that were killed.
fn remove_leftovers() {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if let Some(process) = process.filter(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            remove(&name);
            remove_bridge(process);
        }
    }
}
