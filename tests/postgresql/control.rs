//! Controls a server of the tests: crashes, and SQL of the superuser.

use std::process::{Command, Stdio};

use crate::support::server::{Server, USER, as_user, binaries};

impl Server {
    /// Stops the server without a shutdown, as in a crash.
    pub fn crash(&self) {
        self.control(&["stop", "--mode=immediate"]);
    }

    /// Starts the server again, on its Unix socket.
    pub fn start_again(&self) {
        let directory = self.directory.display();
        let options = format!(
            "--options=-k {directory} -c port={} -c listen_addresses='' -c max_connections=200",
            self.port
        );
        self.control(&["start", &options]);
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

    pub fn control(&self, arguments: &[&str]) {
        let mut command = as_user(&self.directory);
        command.arg(binaries().expect("PostgreSQL").join("pg_ctl"));
        command.arg("--pgdata").arg(self.directory.join("data"));
        command.args(["--wait", "--silent"]).arg("--log").arg(self.directory.join("log"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().expect("pg_ctl").success(), "pg_ctl {arguments:?}");
    }
}
