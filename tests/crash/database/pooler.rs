//! PgBouncer between the hosts and a server.

use std::process::Child;

use super::*;

/// A PgBouncer that ends with this value, or with the test process.
pub struct Pooler {
    child: Child,
    pub port: u16,
}

impl Pooler {
    /// Starts PgBouncer in a pooling mode, in front of a server that `start_with_tls_at` started at
    /// this address. Each user has at most `connections` connections to the server.
    pub fn start(server: &Server, address: &str, mode: &str, connections: usize) -> Self {
        let port = server.port + 1;
        let directory = server.directory.display();
        // A pooler cannot pass on the option that sets the schema. `Fleet` sets it for the role.
        let settings = format!(
            "[databases]\n* = host={directory} port={}\n[pgbouncer]\nlisten_addr = {address}\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {directory}/users\npool_mode = {mode}\n\
             default_pool_size = {connections}\nmax_client_conn = 2000\nignore_startup_parameters = options\n\
             client_tls_sslmode = require\nclient_tls_cert_file = {directory}/localhost.pem\n\
             client_tls_key_file = {directory}/localhost.key\n",
            server.port
        );
        server.shell(&format!(
            "cat >pgbouncer.ini <<'END'\n{settings}END\nprintf '\"host\" \"a password\"\\n' >users"
        ));
        let log = File::create(server.directory.join("pgbouncer.log")).expect("a file");
        let mut command = as_user(&server.directory);
        command.args(["setpriv", "--pdeathsig", "TERM", "pgbouncer"]);
        command.arg(server.directory.join("pgbouncer.ini")).stdin(Stdio::null()).stderr(log);
        let pooler = Self { child: command.spawn().expect("pgbouncer is installed"), port };
        let listens = || std::net::TcpStream::connect((address, port)).is_ok();
        jeton_child::until(Duration::from_secs(10), "PgBouncer does not listen", listens);
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
