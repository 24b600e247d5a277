//! The log in the local syslog: `log.syslog`.

mod common;

use std::os::unix::net::UnixDatagram;

use common::*;

/// A token, a daemon that listens on this socket, and a configuration that names the socket.
fn listened(socket: &str, level: &str) -> Option<(Tool, UnixDatagram)> {
    let tool = Tool::new()?;
    let path = tool.file(socket);
    fs::create_dir_all(Path::new(&path).parent().expect("a directory")).expect("a directory");
    tool.configure(&format!("[log]\nsyslog = '{path}'\n{level}"));
    let daemon = UnixDatagram::bind(&path).expect("a socket");
    daemon.set_nonblocking(true).expect("a socket");
    Some((tool, daemon))
}

/// Reads the messages that a socket has, without waiting.
fn messages(daemon: &UnixDatagram) -> Vec<String> {
    let mut buffer = vec![0; 1 << 16];
    let read =
        || daemon.recv(&mut buffer).ok().map(|len| String::from_utf8_lossy(&buffer[..len]).into_owned());
    std::iter::from_fn(read).collect()
}

fn log_in_wrongly(tool: &Tool) -> String {
    let mut command = tool.command("object list --login");
    fails(5, command.env("JETON_PIN", "a wrong one"))
}

#[test]
fn a_wrong_pin_is_in_the_syslog_at_the_default_level() {
    let Some((tool, daemon)) = listened("log", "") else { return };
    tool.ok("object list --login");
    assert_eq!(messages(&daemon), [""; 0]);
    let said = log_in_wrongly(&tool);
    let lines = messages(&daemon);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    // The facility daemon with the severity error.
    let line = line.strip_prefix("<27>jeton[").unwrap_or_else(|| panic!("{line}"));
    assert!(line.contains("token::pin: login failed token="), "{line}");
    assert!(line.ends_with(" role=User error=PinIncorrect"), "{line}");
    assert!(!line.contains("a wrong one") && !said.contains("login failed"), "{line}\n{said}");
}

#[test]
fn journald_gets_the_token_and_the_function_as_fields() {
    let Some((tool, daemon)) = listened("systemd/journal/socket", "level = 'debug'\n") else { return };
    log_in_wrongly(&tool);
    let all = messages(&daemon);
    let find = |text: &str| all.iter().find(|message| message.contains(text)).expect(text);
    let lines: Vec<_> = find("login failed").lines().collect();
    let serial = tool.serial();
    let text = format!("token::pin: login failed token={serial} role=User error=PinIncorrect");
    let token = format!("TOKEN={serial}");
    assert!(lines[0].starts_with("MESSAGE=") && lines[0].ends_with(&text), "{lines:?}");
    assert_eq!(lines[1..], ["PRIORITY=3", "SYSLOG_FACILITY=3", "SYSLOG_IDENTIFIER=jeton", &token]);
    let call: Vec<_> = find("the call failed").lines().collect();
    assert!(call.contains(&"PRIORITY=7") && call.contains(&"FUNCTION=C_Login"), "{call:?}");
}

#[test]
fn lines_that_no_daemon_takes_go_to_standard_error() {
    let Some((tool, daemon)) = listened("log", "") else { return };
    drop(daemon);
    fs::remove_file(tool.file("log")).expect("a socket");
    says(log_in_wrongly(&tool), "login failed");
}

#[test]
fn a_log_has_one_place() {
    let Some((tool, _)) = listened("log", "file = 'other'\n") else { return };
    says(tool.fails(10, "config check"), "choose one of file and syslog");
}
