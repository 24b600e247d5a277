//! The configuration of the database, and the settings of the server: which of them the module
//! accepts, and which it refuses.

use crate::prelude::*;
use crate::support::server::Server;
use crate::{host, provider, server};

fn start(store: &str) -> Result<(), Error> {
    start_with(store, "")
}

/// Starts a module with these keys of `[store]`, and more of the configuration.
fn start_with(store: &str, more: &str) -> Result<(), Error> {
    let directory = Directory::new();
    let module = Functions::new();
    let parameters = format!("token-dir = '{}', backend = '{}'", directory.path().display(), provider().name);
    module.initialize(Some(&format!("{parameters}, store = {{ {store} }}{more}")))
}

#[test]
fn an_invalid_address_is_refused() {
    for url in [
        "mysql://host/db",
        "postgresql://user:secret@host/db",
        "postgresql://host/db?password=secret",
        "postgresql:///db",
        "postgresql://host/db?unknown=1",
    ] {
        assert!(start(&format!("url = '{url}'")).is_err(), "{url}");
    }
    assert_eq!(start("url = 'postgresql://host/db', schema = 'a b'"), Err(Error::GeneralError));
    assert_eq!(start("url = 'postgresql://host/db', least-commit = 'yes'"), Err(Error::GeneralError));
    assert_eq!(start("url = 'postgresql://host/db', timeout-seconds = 0"), Err(Error::GeneralError));
}

#[test]
fn a_connection_over_tcp_without_tls_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    assert_eq!(start(&format!("url = 'postgresql://user@127.0.0.1:{port}/db'")), Err(Error::DeviceError));
}

#[test]
fn a_server_that_does_not_answer_is_given_up_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let begin = Instant::now();
    let url = format!("postgresql://user@127.0.0.1:{port}/db?sslmode=disable");
    assert_eq!(start(&format!("url = '{url}', timeout-seconds = 1")), Err(Error::DeviceError));
    let took = begin.elapsed();
    assert!((1.0..3.0).contains(&took.as_secs_f64()), "{took:?}");
}

#[test]
fn a_commit_weaker_than_the_configuration_allows_is_refused() {
    if server().is_none() {
        return;
    }
    let weak = Server::start("weak", "-c fsync=off -c synchronous_commit=local").expect("a server");
    let url = weak.url();
    assert_eq!(start(&format!("url = '{url}'")), Err(Error::DeviceError));
    assert_eq!(start(&format!("url = '{url}', least-commit = 'remote_write'")), Err(Error::DeviceError));
    assert_eq!(start(&format!("url = '{url}', least-commit = 'local'")), Ok(()));
    assert_eq!(start(&format!("url = '{url}', least-commit = 'off'")), Ok(()));
}

#[test]
fn the_password_comes_from_a_file() {
    let Some(server) = server() else { return };
    let directory = Directory::new();
    let path = directory.path().join("password");
    std::fs::write(&path, "a password\n").expect("a file");
    let store = format!("url = '{}', password = 'file:{}'", server.url(), path.display());
    let mode = |mode| {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode")
    };
    mode(0o644);
    assert_eq!(start(&store), Err(Error::DeviceError), "other users can read it");
    mode(0o600);
    assert_eq!(start(&store), Ok(()));
}

#[test]
fn two_schemas_of_a_database_are_separate() {
    let Some(server) = server() else { return };
    let (one, two) = (host(server, ""), host(server, ""));
    let (mine, yours) = (one.user(), two.user());
    one.create(mine, &data("mine").stored()).expect("data");
    assert_eq!(two.find(yours, &data("mine")), []);
    assert_eq!(two.slots().expect("slots").len(), 2);
}

#[test]
fn tls_verifies_the_server_and_authenticates_the_host() {
    if server().is_none() {
        return;
    }
    let tls = Server::start_with_tls("tls").expect("a server");
    let path = |name: &str| tls.directory.join(name).display().to_string();
    let url = |user: &str, host: &str| format!("url = 'postgresql://{user}@{host}:{}/postgres'", tls.port);
    let (ca, other) =
        (format!("ca-file = '{}'", path("ca.pem")), format!("ca-file = '{}'", path("other.pem")));
    let directory = Directory::new();
    let password = |text: &str| {
        let path = directory.path().join("password");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
        format!("password = 'file:{}'", path.display())
    };
    let refused = Err(Error::DeviceError);
    let started = |parts: &[&str]| start(&parts.join(", "));
    let right = password("a password");
    let schema = "schema = 'one'";
    assert_eq!(started(&[&url("host", "localhost"), schema, &ca, &right]), Ok(()));
    let full = url("host", "localhost").replace("/postgres'", "/postgres?sslmode=verify-full'");
    assert_eq!(started(&[&full, schema, &ca, &right]), Ok(()), "the name that libpq has for this");
    let log = directory.path().join("log");
    let other = [url("host", "localhost"), schema.to_owned(), other, right.clone()];
    let names = [format!("localhost (127.0.0.1:{})", tls.port), path("other.pem")];
    // The log and its limit of lines are those of the process, and other tests run beside this one.
    // So it takes the line of one of several tries.
    let said = (0..30).any(|_| {
        assert_eq!(
            start_with(&other.join(", "), &format!(", log = {{ file = '{}' }}", log.display())),
            refused
        );
        let said = std::fs::read_to_string(&log).expect("a log");
        let said = names.iter().all(|name| said.contains(name));
        said || {
            std::thread::sleep(Duration::from_secs(1));
            false
        }
    });
    assert!(said, "the host and the authorities: {names:?}");
    assert_eq!(started(&[&url("host", "127.0.0.1"), schema, &ca, &right]), refused, "another name");
    let plain = url("host", "localhost").replace("/postgres'", "/postgres?sslmode=disable'");
    assert_eq!(started(&[&plain, schema, &right]), refused, "the server demands TLS");
    assert_eq!(started(&[&url("host", "localhost"), schema, &ca, &password("another")]), refused);
    assert_eq!(started(&[&url("host", "localhost"), schema, &ca]), refused, "no password");
    let schema = "schema = 'two'";
    assert_eq!(started(&[&url("certified", "localhost"), schema, &ca]), refused, "no certificate");
    // The key file belongs to the user who runs the server. The module refuses a key file of
    // another user, so it gets a copy.
    let own = |name: &str| {
        let copy = directory.path().join(name);
        std::fs::write(&copy, std::fs::read(tls.directory.join(name)).expect("a file")).expect("a file");
        std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
        copy.display().to_string()
    };
    let (certificate, key) = (path("certified.pem"), own("certified.key"));
    let client = format!("client-certificate = '{certificate}', client-key = '{key}'");
    assert_eq!(started(&[&url("certified", "localhost"), schema, &ca, &client]), Ok(()));
}
