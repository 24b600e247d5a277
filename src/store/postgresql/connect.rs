//! Opens connections to the server: finds the hosts of the address, verifies the certificates of
//! their servers, checks the settings, and chooses the newest primary.

use std::fmt::{Display, Formatter};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tracing::warn;

use super::failure::{Fault, Outcome};
use super::message_limits::Guarded;
use super::notifications::{Unasked, wire};
use super::requests::{Pending, Unwatched, Wire, drive};
use super::tls::{Connector, Tls};
use crate::config::{CommitLevel, DatabaseRules, SealingSource};
use crate::store::fork::Socket;
use crate::store::seal::sealing_key::read_secret;

/// The port of a server if the address names none.
const PORT: u16 = 5432;

const NO_STANDBY: &str =
    "the server waits for no standby (synchronous_standby_names), and [store] require-standby demands it";

/// How long the other hosts may take after one of them has answered. If this is longer, they get
/// twice the time of the host that answered.
const GRACE: Duration = Duration::from_millis(300);

/// An open connection.
pub(super) struct Session {
    // Dropped before the socket is closed.
    _socket: Option<Socket>,
    pub(super) client: Arc<Client>,
    /// `None` after the server has closed the connection.
    pub(super) wire: Option<Wire>,
    pub(super) unasked: Arc<Unasked>,
    pub(super) lineage: Lineage,
}

/// The history that a server continues. Each failover begins a timeline with the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lineage {
    /// The standbys of a server have its identifier.
    system: i64,
    timeline: i64,
}

impl Lineage {
    /// Returns whether a server of the other lineage was promoted after this one.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.system == other.system && self.timeline < other.timeline
    }
}

/// The addresses of the configured hosts, in their order.
pub(super) type Resolved = Arc<[Target]>;

/// A socket to connect to.
pub(super) enum Target {
    Unix(PathBuf),
    Tcp { name: String, address: SocketAddr },
}

impl Display for Target {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(to, "{}", path.display()),
            Self::Tcp { name, address } => write!(to, "{name} ({address})"),
        }
    }
}

/// The configured address, and how to log in there.
pub(super) struct Address {
    password: Option<SealingSource>,
    timeout: Duration,
    login: Login,
}

/// What each connection needs, and what its server must have.
#[derive(Clone)]
struct Login {
    config: Config,
    tls: Option<Tls>,
    least: CommitLevel,
    require_standby: bool,
    /// The schema of the tables. Commits are announced on a channel with this name.
    schema: String,
}

impl Address {
    pub(super) fn new(rules: &DatabaseRules) -> Outcome<Self> {
        // The module always does what libpq calls `verify-full`. The client library has no such
        // value.
        let mut config: Config = rules.url.replace("sslmode=verify-full", "sslmode=require").parse()?;
        if config.get_hosts().is_empty() {
            return Err(refuse("store.url names no host"));
        }
        let milliseconds = rules.timeout.as_millis();
        // A function of another schema never replaces one of PostgreSQL. `begin` in
        // `transaction.rs` says why there is no statement_timeout. A process that does not use its
        // tokens reads no announcement. After this time with a full buffer, in milliseconds, the
        // server ends its connection, and can forget the announcements.
        let options = format!(
            "{} -c search_path=pg_catalog,{},pg_temp -c statement_timeout=0 -c lock_timeout={milliseconds} \
             -c idle_in_transaction_session_timeout={milliseconds} -c tcp_user_timeout=60000",
            config.get_options().unwrap_or_default(),
            rules.schema
        );
        config.options(options);
        if config.get_application_name().is_none() {
            config.application_name("jeton");
        }
        let tls = Tls::new(rules).map_err(|reason| refuse(&reason))?;
        let (least, require_standby) = (rules.least_commit, rules.require_standby);
        let login = Login { config, tls, least, require_standby, schema: rules.schema.clone() };
        Ok(Self { password: rules.password.clone(), timeout: rules.timeout, login })
    }

    pub(super) fn requires_standby(&self) -> bool {
        self.login.require_standby
    }

    pub(super) fn schema(&self) -> &str {
        &self.login.schema
    }

    pub(super) fn hosts(&self) -> usize {
        self.login.config.get_hosts().len()
    }

    /// Looks up the names of the hosts. Waits for the resolver of the system.
    pub(super) fn resolve(&self) -> Outcome<Resolved> {
        let (ports, mut targets) = (self.login.config.get_ports(), Vec::new());
        for (number, host) in self.login.config.get_hosts().iter().enumerate() {
            let port = ports.get(number).or(ports.first()).copied().unwrap_or(PORT);
            match host {
                Host::Unix(directory) => {
                    targets.push(Target::Unix(directory.join(format!(".s.PGSQL.{port}"))));
                }
                Host::Tcp(name) => match (name.as_str(), port).to_socket_addrs() {
                    Ok(found) => {
                        targets.extend(found.map(|address| Target::Tcp { name: name.clone(), address }))
                    }
                    Err(reason) => warn!(name, "the host of the database is not found: {reason}"),
                },
            }
        }
        if targets.is_empty() {
            return Err(Fault::Unreachable("no host of store.url is found".to_owned()));
        }
        Ok(targets.into())
    }

    /// Connects to all hosts at once, and returns the primary with the highest timeline. A primary
    /// whose timeline is lower than one that was seen is an old one, and is not used. `unwatched`
    /// counts the time in which no call looks.
    pub(super) fn establish(
        &self,
        targets: Resolved,
        seen: Option<Lineage>,
        unwatched: Arc<Unwatched>,
    ) -> Pending<Session> {
        let (mut login, limit) = (self.login.clone(), self.timeout);
        let password = self.password.as_ref().map(read_secret).transpose();
        Box::pin(async move {
            let password = password.map_err(|reason| refuse(&format!("store.password: {reason}")))?;
            if let Some(password) = &password {
                login.config.password(password.trim_ascii_end());
            }
            let began = Instant::now();
            let mut wait = limit / u32::try_from(targets.len()).unwrap_or(1);
            let mut reasons: Vec<_> = targets.iter().map(|_| "no answer in time".to_owned()).collect();
            let mut newest: Option<Session> = None;
            let login = &login;
            let mut tries: FuturesUnordered<_> = (targets.iter().enumerate())
                .map(|(number, target)| async move { (number, login.open(target).await) })
                .collect();
            while let Some(Some((number, opened))) = unwatched.limit(wait, tries.next()).await {
                match opened {
                    Err(reason) => reasons[number] = reason.text(),
                    Ok(answer) => {
                        wait = GRACE.max(2 * began.elapsed());
                        let answer = answer.and_then(|session| session.unless_before(seen));
                        match (answer, &newest) {
                            (Err(reason), _) => reasons[number] = reason,
                            (Ok(session), Some(other)) if session.lineage.is_before(other.lineage) => {}
                            (Ok(session), _) => newest = Some(session),
                        }
                    }
                }
            }
            let of = |(target, reason): (&Target, &String)| format!("{target}: {reason}");
            let reasons = || targets.iter().zip(&reasons).map(of).collect::<Vec<_>>().join("; ");
            newest.ok_or_else(|| Fault::Unreachable(reasons()))
        })
    }
}

impl Session {
    /// Returns the session unless its server is older than one that was seen.
    fn unless_before(self, seen: Option<Lineage>) -> Result<Self, String> {
        match seen {
            Some(seen) if self.lineage.is_before(seen) => Err(format!(
                "the server is an old primary: its timeline is {}, and timeline {} was seen",
                self.lineage.timeline, seen.timeline
            )),
            _ => Ok(self),
        }
    }
}

impl Login {
    /// Opens a connection and checks the server. Returns the reason if it is not to be used.
    async fn open(&self, target: &Target) -> Outcome<Result<Session, String>> {
        let unreachable = |reason: std::io::Error| Fault::Unreachable(reason.to_string());
        let (mut config, unasked) = (self.config.clone(), Arc::default());
        let (socket, client, wire): (_, _, Wire) = match target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                let socket = Socket::register(stream.as_raw_fd());
                let stream = Guarded::new(stream);
                let (client, connection) =
                    config.ssl_mode(SslMode::Disable).connect_raw(stream, NoTls).await?;
                (socket, client, wire(connection, &unasked))
            }
            Target::Tcp { name, address } => {
                let stream = TcpStream::connect(address).await.map_err(unreachable)?;
                stream.set_nodelay(true).map_err(unreachable)?;
                let socket = Socket::register(stream.as_raw_fd());
                match self.connector(address, name)? {
                    None => {
                        let (client, connection) = config.connect_raw(Guarded::new(stream), NoTls).await?;
                        (socket, client, wire(connection, &unasked))
                    }
                    Some(connector) => {
                        let (client, connection) =
                            config.ssl_mode(SslMode::Require).connect_raw(stream, connector).await?;
                        (socket, client, wire(connection, &unasked))
                    }
                }
            }
        };
        let (client, mut wire) = (Arc::new(client), Some(wire));
        let checked = drive(&mut wire, self.check(&client, &unasked)).await?;
        Ok(checked.map(|lineage| Session { _socket: socket, client, wire, unasked, lineage }))
    }

    /// Returns the TLS of a connection; `None` if the address disables TLS, which is allowed only
    /// for a server on the same host.
    fn connector(&self, address: &SocketAddr, name: &str) -> Outcome<Option<Connector>> {
        if self.config.get_ssl_mode() == SslMode::Disable {
            return match address.ip().is_loopback() {
                true => Ok(None),
                false => Err(refuse("sslmode=disable is allowed for servers on the same host only")),
            };
        }
        let tls = self.tls.as_ref();
        let tls = tls.ok_or_else(|| refuse("a connection over TCP needs TLS: set store.ca-file"))?;
        tls.connector(name).map(Some).map_err(|reason| refuse(&reason))
    }

    /// Checks that the server accepts changes, and that an acknowledged change is as durable as the
    /// configuration demands. Returns the reason if it is not to be used.
    async fn check(&self, client: &Client, unasked: &Unasked) -> Outcome<Result<Lineage, String>> {
        // The setting is set to its own value, so that a later change of the server's configuration
        // does not lower it in this session. The control file has the new timeline only after a
        // checkpoint, but the name of the current segment of the log has it at once.
        let sql = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
                       set_config('synchronous_commit', current_setting('synchronous_commit'), false),
                       coalesce(current_setting('fsync', true), 'on') = 'on',
                       (SELECT system_identifier FROM pg_control_system()),
                       CASE WHEN pg_is_in_recovery() THEN 0
                            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
                       pg_backend_pid(), current_setting('synchronous_standby_names') <> ''";
        let row = client.query_typed_one(sql, &[]).await?;
        let (is_standby, is_read_only): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        if is_standby || is_read_only {
            return Ok(Err("the server is a standby, which accepts no changes".to_owned()));
        }
        let found: &str = row.try_get(2)?;
        if CommitLevel::named(found).is_none_or(|found| found < self.least) {
            return Ok(Err(format!(
                "the server has synchronous_commit = {found}, which is less than [store] least-commit"
            )));
        }
        if self.require_standby && !row.try_get::<_, bool>(7)? {
            return Ok(Err(NO_STANDBY.to_owned()));
        }
        if !row.try_get::<_, bool>(3)? {
            warn!("the server has fsync = off: a crash of its operating system loses changes");
        }
        unasked.set_process(row.try_get(6)?);
        Ok(Ok(Lineage { system: row.try_get(4)?, timeline: row.try_get(5)? }))
    }
}

/// Checks after a commit that the server still waits for a standby. A manager such as Patroni may
/// end this when the last standby is lost.
pub(super) async fn expect_standby(client: &Client) -> Outcome<()> {
    let sql = "SELECT current_setting('synchronous_standby_names') <> ''";
    match client.query_typed_one(sql, &[]).await?.try_get(0)? {
        true => Ok(()),
        false => Err(Fault::Unreachable(NO_STANDBY.to_owned())),
    }
}

/// Returns the reason why no server is used.
fn refuse(reason: &str) -> Fault {
    Fault::Unreachable(format!("database refused: {reason}"))
}
