//! The connection of a process to the server. It is opened when it is needed, and again after a
//! failure.

use std::future::pending;
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tracing::{error, warn};

use super::connect::{Address, Lineage, Resolved, Session};
use super::failure::{Fault, Outcome};
use super::outage::Outage;
use super::requests::{Pending, Unwatched, drive, listen, look};
use crate::config::DatabaseRules;
use crate::error::Error;

/// The pause before the first new try after a failure. Each later pause is twice as long, up to
/// `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time between two questions.
const EACH: Duration = Duration::from_secs(1);
/// How long an answer may take until another server may have become the primary.
const LATE: Duration = Duration::from_secs(2);

/// A question to the server. A later call reads the answer.
pub(super) struct Asked<T> {
    /// The connection on which it was asked.
    client: Arc<Client>,
    /// `None` after the answer.
    answer: Option<Pending<T>>,
    since: Instant,
}

/// What a call found out that does not wait.
pub(super) enum News<T> {
    Answer(T),
    /// A question has no answer yet.
    Waiting,
    /// No question is due, and the server has announced no commit.
    Quiet,
}

/// The connection, open or not.
pub(super) struct Link {
    /// Runs the client library, in the thread of the caller. It has no thread of its own.
    runtime: Runtime,
    address: Address,
    /// The addresses of the last look-up of the host names.
    resolved: Option<Resolved>,
    /// The lineage of the server that was used last. An older one is not used any more.
    seen: Option<Lineage>,
    /// Whether the server has no standby, or does not answer: a standby may be the primary now.
    is_doubtful: bool,
    search: Search,
    /// The pause after the next search. It grows as `pause` does.
    search_pause: Duration,
    state: State,
    /// The pause after the next failure.
    pause: Duration,
    timeout: Duration,
    outage: Arc<Outage>,
}

enum State {
    /// There is no connection. A new one is tried after this moment.
    Down(Instant),
    /// A call that does not wait has begun to connect.
    Connecting(Pending<Session>, Arc<Unwatched>),
    Up(Session),
}

/// A search for a newer primary, while a session is in use.
enum Search {
    /// None runs. The next one may begin at this moment.
    After(Instant),
    Running(Pending<Session>, Arc<Unwatched>),
}

/// A session of the server during one call, and the end of the time that the call has.
pub(super) struct Exchange<'a> {
    runtime: &'a Runtime,
    session: Session,
    limit: Duration,
    end: Instant,
    /// Where a newer primary may be; `None` if the address has one host.
    others: Option<(&'a Address, Resolved)>,
    /// The session of a newer primary, if one was found.
    newer: Option<Session>,
}

impl Exchange<'_> {
    /// Does a part of the work.
    pub(super) fn run<T>(&mut self, work: impl AsyncFnOnce(&Client) -> Outcome<T>) -> Outcome<T> {
        let client = Arc::clone(&self.session.client);
        let (lineage, limit, others) = (self.session.lineage, self.limit, &self.others);
        let left = self.end.saturating_duration_since(Instant::now());
        let done = self.runtime.block_on(async {
            let work = pin!(drive(&mut self.session.wire, work(&client)));
            let newer = pin!(async {
                match others {
                    Some((address, hosts)) => newer(address, hosts, lineage).await,
                    None => pending().await,
                }
            });
            match timeout(left, select(work, newer)).await {
                Ok(Either::Left((done, _))) => Ok(done),
                Ok(Either::Right((newer, _))) => Err(Some(newer)),
                Err(_) => Err(None),
            }
        });
        match done {
            Ok(done) => done,
            Err(Some(newer)) => {
                self.newer = Some(newer);
                Err(Fault::Unreachable("another host of store.url is the primary now".to_owned()))
            }
            Err(None) => Err(Fault::Unreachable(format!("no answer in {limit:?}"))),
        }
    }
}

/// Looks for a newer primary if there is no answer for some time, again and again. A commit on an
/// old primary waits for a standby that has left it.
async fn newer(address: &Address, hosts: &Resolved, lineage: Lineage) -> Session {
    loop {
        sleep(LATE).await;
        let found = address.establish(Arc::clone(hosts), Some(lineage), Arc::new(Unwatched::new())).await;
        if let Some(session) = found.ok().filter(|session| lineage.is_before(session.lineage)) {
            return session;
        }
    }
}

/// Sends statements. Does not wait: the answer is skipped when it comes.
fn send(runtime: &Runtime, session: &mut Session, statements: String) {
    let client = Arc::clone(&session.client);
    let mut sent: Pending<()> = Box::pin(async move { Ok(client.batch_execute(&statements).await?) });
    runtime.block_on(look(&mut session.wire, &mut sent));
}

impl Link {
    /// Connects to the server.
    pub(super) fn new(rules: &DatabaseRules, outage: &Arc<Outage>) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let mut link = Self {
            runtime: runtime.map_err(|reason| Fault::Unreachable(reason.to_string()))?,
            address: Address::new(rules)?,
            resolved: None,
            seen: None,
            is_doubtful: false,
            search: Search::After(Instant::now()),
            search_pause: FIRST_PAUSE,
            state: State::Down(Instant::now()),
            pause: FIRST_PAUSE,
            timeout: rules.timeout,
            outage: Arc::clone(outage),
        };
        let session = link.session()?;
        link.state = State::Up(session);
        Ok(link)
    }

    pub(super) fn hosts(&self) -> usize {
        self.address.hosts()
    }

    pub(super) fn requires_standby(&self) -> bool {
        self.address.requires_standby()
    }

    /// Returns the longest time that a call waits for the server.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Does `work` on the server. Waits at most for the configured time, and as long again if there
    /// is no connection yet. Fails at once during the pause after a failure.
    pub(super) fn run<T>(&mut self, work: impl AsyncFnOnce(&Client) -> Outcome<T>) -> Outcome<T> {
        self.run_within(self.timeout, work)
    }

    pub(super) fn run_within<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Client) -> Outcome<T>,
    ) -> Outcome<T> {
        self.exchange(limit, |exchange| exchange.run(work))
    }

    /// Like `run_within`, for work of several parts in one session of the server. The caller
    /// computes between the parts.
    pub(super) fn exchange<T>(
        &mut self,
        limit: Duration,
        work: impl FnOnce(&mut Exchange<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let session = self.session()?;
        let end = Instant::now() + limit;
        let others = self.resolved.clone().filter(|hosts| hosts.len() > 1);
        let others = others.map(|hosts| (&self.address, hosts));
        let runtime = &self.runtime;
        let mut exchange = Exchange { runtime, session, limit, end, others, newer: None };
        let mut outcome = work(&mut exchange);
        let Exchange { session, newer, .. } = exchange;
        if let Some(newer) = newer {
            self.enter(&newer);
            self.state = State::Up(newer);
            return outcome;
        }
        if session.unasked.take_ended_wait() && outcome.is_ok() {
            error!(
                "the server ended the wait of a commit for its standby: the change may be lost in a failover"
            );
            outcome = Err(Fault::Refused(Error::DeviceError));
        }
        self.keep(session, &outcome);
        outcome
    }

    /// Looks for the answer to an earlier question. If none is waiting for its answer, asks: once a
    /// second, and after an announcement of a commit of the token. Does not wait: a lost connection
    /// is opened again step by step.
    pub(super) fn ask_without_wait<T>(
        &mut self,
        serial: &str,
        asked: &mut Option<Asked<T>>,
        ask: impl FnOnce(Arc<Client>) -> Pending<T>,
    ) -> Outcome<News<T>> {
        let mut session = self.session_without_wait()?;
        // The server will not answer a question on an earlier connection.
        let earlier = asked.take().filter(|asked| Arc::ptr_eq(&asked.client, &session.client));
        let (mut answer, since) = match earlier {
            Some(Asked { answer: Some(answer), since, .. }) => (answer, since),
            earlier => {
                if session.unasked.begins_to_listen() {
                    send(&self.runtime, &mut session, format!("LISTEN {}", self.address.schema()));
                }
                self.runtime.block_on(listen(&mut session.wire));
                let is_announced = session.unasked.take_announced(serial);
                let is_due = |asked: &Asked<T>| asked.since.elapsed() >= EACH;
                if session.wire.is_some() && !is_announced && !earlier.as_ref().is_none_or(is_due) {
                    *asked = earlier;
                    self.state = State::Up(session);
                    return Ok(News::Quiet);
                }
                (ask(Arc::clone(&session.client)), Instant::now())
            }
        };
        let found = self.runtime.block_on(look(&mut session.wire, &mut answer));
        let answer = found.is_none().then_some(answer);
        *asked = Some(Asked { client: Arc::clone(&session.client), answer, since });
        let outcome = match found {
            Some(found) => found.map(News::Answer),
            None if since.elapsed() > self.timeout => {
                Err(Fault::Unreachable(format!("no answer in {:?}", self.timeout)))
            }
            None => {
                self.is_doubtful |= since.elapsed() > LATE;
                self.state = State::Up(session);
                return Ok(News::Waiting);
            }
        };
        self.keep(session, &outcome);
        outcome
    }

    /// Announces a commit of a token to the other hosts. Does not wait for the server.
    ///
    /// In the transaction of the commit, `NOTIFY` would make all commits of the database follow
    /// each other. An announcement that is lost delays the news until the next question.
    pub(super) fn announce(&mut self, serial: &str) {
        let State::Up(session) = &mut self.state else { return };
        let schema = self.address.schema();
        let sql = format!("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {schema}, '{serial}'; COMMIT");
        send(&self.runtime, session, sql);
    }

    /// Keeps the session after this outcome of work on it, unless the connection was lost.
    fn keep<T>(&mut self, session: Session, outcome: &Outcome<T>) {
        match outcome {
            Err(reason) if reason.is_lost() => self.lose(&reason.text()),
            _ => {
                self.outage.end();
                self.state = State::Up(session);
            }
        }
    }

    /// Returns the session, and connects if there is none. The state is `Down` until the caller
    /// puts the session back.
    fn session(&mut self) -> Outcome<Session> {
        let now = Instant::now();
        match replace(&mut self.state, State::Down(now)) {
            State::Up(mut session) => {
                if self.is_alive(&mut session) {
                    return Ok(self.newest(session));
                }
                drop(session);
                self.connect()
            }
            State::Connecting(pending, unwatched) => {
                unwatched.look();
                self.finish(pending)
            }
            State::Down(next) if next > now => {
                self.state = State::Down(next);
                Err(Fault::Paused)
            }
            State::Down(_) => self.connect(),
        }
    }

    fn connect(&mut self) -> Outcome<Session> {
        let resolved = match self.address.resolve() {
            Ok(resolved) => resolved,
            Err(reason) => {
                self.lose(&reason.text());
                return Err(reason);
            }
        };
        self.resolved = Some(resolved.clone());
        let pending = self.address.establish(resolved, self.seen, Arc::new(Unwatched::new()));
        self.finish(pending)
    }

    /// Waits until the connection is open.
    fn finish(&mut self, pending: Pending<Session>) -> Outcome<Session> {
        let limit = self.timeout;
        let done = self.runtime.block_on(async { timeout(limit, pending).await });
        let outcome = done.unwrap_or_else(|_| Err(Fault::Unreachable(format!("no connection in {limit:?}"))));
        match &outcome {
            Ok(session) => self.enter(session),
            Err(reason) => self.lose(&reason.text()),
        }
        outcome
    }

    /// Notes the server of a new connection.
    fn enter(&mut self, session: &Session) {
        if self.seen.is_some_and(|seen| seen.is_before(session.lineage)) {
            warn!("another server of store.url is the primary now");
        }
        self.pause = FIRST_PAUSE;
        self.seen = Some(session.lineage);
        self.is_doubtful = false;
    }

    /// Takes note of whether the server has a standby. If it has none, another host of `store.url`
    /// may be the primary now.
    pub(super) fn note_standby(&mut self, has_standby: bool) {
        self.is_doubtful = !has_standby;
        if has_standby {
            self.search_pause = FIRST_PAUSE;
        }
    }

    /// Returns the session, or that of a newer primary. While the server is in doubt, looks for one
    /// among the other hosts, without waiting.
    fn newest(&mut self, session: Session) -> Session {
        let Some(resolved) = self.resolved.as_ref().filter(|hosts| self.is_doubtful && hosts.len() > 1)
        else {
            return session;
        };
        let now = Instant::now();
        let next = now + self.search_pause;
        let (mut pending, unwatched) = match replace(&mut self.search, Search::After(next)) {
            Search::Running(pending, unwatched) => (pending, unwatched),
            Search::After(next) if next <= now => {
                let unwatched = Arc::new(Unwatched::new());
                (self.address.establish(resolved.clone(), self.seen, Arc::clone(&unwatched)), unwatched)
            }
            wait => {
                self.search = wait;
                return session;
            }
        };
        unwatched.look();
        match self.runtime.block_on(look(&mut None, &mut pending)) {
            Some(Ok(newer)) if session.lineage.is_before(newer.lineage) => {
                self.enter(&newer);
                newer
            }
            Some(_) => {
                self.search_pause = (2 * self.search_pause).min(LONGEST_PAUSE);
                session
            }
            None => {
                self.search = Search::Running(pending, unwatched);
                session
            }
        }
    }

    /// Returns the session if there is one. Otherwise begins to connect, or continues.
    fn session_without_wait(&mut self) -> Outcome<Session> {
        let now = Instant::now();
        let (mut pending, unwatched) = match replace(&mut self.state, State::Down(now)) {
            State::Up(session) => return Ok(self.newest(session)),
            State::Connecting(pending, unwatched) => (pending, unwatched),
            State::Down(next) => match &self.resolved {
                Some(resolved) if next <= now => {
                    let unwatched = Arc::new(Unwatched::new());
                    (self.address.establish(resolved.clone(), self.seen, Arc::clone(&unwatched)), unwatched)
                }
                _ => {
                    self.state = State::Down(next);
                    return Err(Fault::Paused);
                }
            },
        };
        unwatched.look();
        match self.runtime.block_on(look(&mut None, &mut pending)) {
            Some(outcome) => {
                match &outcome {
                    Ok(session) => self.enter(session),
                    Err(reason) => self.lose(&reason.text()),
                }
                outcome
            }
            None => {
                self.state = State::Connecting(pending, unwatched);
                Err(Fault::Paused)
            }
        }
    }

    /// Returns whether the server has the connection open, as far as the socket shows.
    fn is_alive(&self, session: &mut Session) -> bool {
        self.runtime.block_on(listen(&mut session.wire));
        session.wire.is_some()
    }

    /// Notes that the server cannot be reached. The next try is after a pause.
    fn lose(&mut self, reason: &str) {
        // Without an earlier connection there are no keys in memory.
        if self.seen.is_some() {
            self.outage.begin(reason);
        }
        self.state = State::Down(Instant::now() + self.pause);
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}
