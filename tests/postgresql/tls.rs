//! A server with TLS.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::server::{Server, USER, as_user};

fn free_port(address: &str) -> u16 {
    let listener = TcpListener::bind((address, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Server {
    /// Starts a server that also listens on this address, at a port that is free.
    pub fn start_with_port(name: &str, options: &str, address: &str) -> Option<Self> {
        Self::start_on(name, options, address, free_port(address))
    }

    /// Starts a standby of a server that `start_with_tls` started.
    pub fn start_standby(&self, name: &str) -> Self {
        let source = format!("host={} port={} user={USER}", self.directory.display(), self.port);
        let port = free_port("127.0.0.1");
        let options = "-c fsync=off -c wal_retrieve_retry_interval=100ms";
        Self::start_from(&source, name, options, "127.0.0.1", port).expect("a standby")
    }

    /// Starts a server with TLS at a port of the loopback address, for the host name `localhost`.
    /// See [`start_with_tls_at`](Self::start_with_tls_at).
    pub fn start_with_tls(name: &str) -> Option<Self> {
        Self::start_with_tls_at(name, "-c fsync=off", "127.0.0.1", "DNS:localhost")
    }

    /// Starts a server with TLS at a port of this address. Its certificate has this subject
    /// alternative name. A role `host` needs a password, and a role `certified` a certificate.
    pub fn start_with_tls_at(name: &str, options: &str, address: &str, subject: &str) -> Option<Self> {
        let tls = Self::start_with_port(name, options, address)?;
        tls.shell(&format!(
            "new() {{ openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
                 -keyout $1.key -out $1.pem -subj /CN=$1 -addext basicConstraints=critical,CA:$2 \
                 -addext subjectAltName=$3 ${{4:+-CA $4.pem -CAkey $4.key}}; }}
             new ca true DNS:ca; new other true DNS:other
             new localhost false {subject} ca; new certified false DNS:certified ca",
        ));
        let path = |name: &str| tls.directory.join(name).display().to_string();
        tls.sql("CREATE ROLE host LOGIN PASSWORD 'a password'; CREATE ROLE certified LOGIN");
        tls.sql("GRANT ALL ON DATABASE postgres TO host, certified");
        for (name, value) in [
            ("ssl", "on".to_owned()),
            ("ssl_cert_file", path("localhost.pem")),
            ("ssl_key_file", path("localhost.key")),
            ("ssl_ca_file", path("ca.pem")),
        ] {
            tls.sql(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        }
        tls.shell("printf '%s\n' 'local all,replication all trust' 'hostssl all host all scram-sha-256' 'hostssl all certified all cert' >data/pg_hba.conf");
        tls.sql("SELECT pg_reload_conf()");
        // The server reads all its settings before it accepts the next connection.
        while tls.sql("SHOW ssl") != "on" {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(tls)
    }

    /// Runs a shell script in the server's directory, as the user of the server.
    pub fn shell(&self, script: &str) {
        let mut command = as_user(&self.directory);
        let done =
            command.args(["sh", "-euc", script]).current_dir(&self.directory).output().expect("a shell");
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
