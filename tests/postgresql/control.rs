//! Controls a server of the tests: crashes, SQL of the superuser, and TLS.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::server::{Server, USER, as_user, binaries};

impl Server {
    /// Starts a server that also listens on the loopback address, at a port that is free.
    pub fn start_with_port(name: &str, options: &str) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        Self::start_on(name, options, "127.0.0.1", port)
    }

    /// Runs SQL as the superuser. Returns the rows, without headings.
    pub fn sql(&self, sql: &str) -> String {
        let mut command = Command::new(binaries().expect("PostgreSQL").join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        command.arg("--host").arg(&self.directory).arg(format!("--port={}", self.port));
        command.args(["--username", USER, "--command", sql, "postgres"]);
        let done = command.output().expect("psql");
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text").trim_end().to_owned()
    }

    /// Runs pg_ctl with these arguments.
    pub fn control(&self, arguments: &[&str]) {
        let mut command = as_user(&self.directory);
        command.arg(binaries().expect("PostgreSQL").join("pg_ctl"));
        command.arg("--pgdata").arg(self.directory.join("data"));
        command.args(["--wait", "--silent"]).arg("--log").arg(self.directory.join("log"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().expect("pg_ctl").success(), "pg_ctl {arguments:?}");
    }

    /// Runs a shell script in the server's directory, as the user of the server.
    pub fn shell(&self, script: &str) {
        let mut command = as_user(&self.directory);
        let done =
            command.args(["sh", "-euc", script]).current_dir(&self.directory).output().expect("a shell");
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
