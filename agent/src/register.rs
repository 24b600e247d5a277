//! The open connections: who has them, what the rules say of each, and what ends them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use jeton::quota::Quota;
use jeton_agent_wire::Reply;
use rustix::net::{Shutdown, shutdown};
use tracing::{debug, error};

use crate::figures::Figures;
use crate::peer::Peer;
use crate::rules::{Memory, Rules, Verdict};
use crate::runs::Runs;
use crate::{Agent, CONNECTION, lock};

/// The most connections at the same time. The agent also stays below its limit of descriptors.
const MOST_CONNECTIONS: usize = 16_384;
/// The memory in bytes of the calls of a client and of what it keeps, if no rule says another
/// number.
const MEMORY: usize = 512 << 20;
/// The most connections of a client that wait for their memory.
const WAITING: usize = 16;
/// The most names of clients in an answer.
const SHOWN: usize = 20;
/// How long running calls have when the agent stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long the tokens have to close after that.
const CLOSE: Duration = Duration::from_secs(5);

/// The open connections, and the rules that allow them.
pub struct Register {
    open: Mutex<Open>,
    /// Whether the agent stops, and takes no connection and no call. Set while `open` is locked.
    is_ending: AtomicBool,
    most: usize,
}

struct Open {
    rules: Arc<Rules>,
    last: u64,
    standings: HashMap<u64, Arc<Standing>>,
    /// The clients since the start, by their names and whether no rule allows them. A peer whose
    /// groups or unit are unknown has the name of one that a rule allows.
    clients: HashMap<(String, bool), Arc<Client>>,
}

/// Who has a connection, and what the rules say of it.
pub struct Standing {
    number: u64,
    pub(crate) peer: Peer,
    /// The text by which the logs, limits, tickets and applications know the client.
    pub(crate) identity: String,
    pub(crate) verdict: Verdict,
    pub(crate) client: Arc<Client>,
    /// Another descriptor of its socket.
    pub(crate) socket: OwnedFd,
}

/// What the connections of a client share.
pub struct Client {
    /// The number of the rule, from 1.
    pub(crate) rule: Option<usize>,
    pub(crate) connections: AtomicUsize,
    /// The memory of long requests. A call takes it before that for its answer, so that no two
    /// calls wait for each other.
    pub(crate) requests: Arc<Quota>,
    /// The memory of connections, of calls, and of what an application keeps between calls.
    pub(crate) memory: Arc<Quota>,
    pub(crate) runs: Runs,
    pub(crate) figures: Figures,
}

impl Register {
    /// Returns a register without connections.
    pub(crate) fn new(rules: Rules) -> Self {
        let (rules, last) = (Arc::new(rules), 0);
        let (is_ending, standings, clients) = Default::default();
        let open = Mutex::new(Open { rules, last, standings, clients });
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        // Each connection has two. An eighth is for tokens.
        let descriptors = descriptors.and_then(|most| usize::try_from(most / 16 * 7).ok());
        Self { open, is_ending, most: MOST_CONNECTIONS.min(descriptors.unwrap_or(usize::MAX)) }
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&lock(&self.open).rules)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.open).standings.len()
    }

    /// Returns whether the agent stops.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Returns the clients since the start, in the order of their names.
    pub(crate) fn clients(&self) -> Vec<(String, Arc<Client>)> {
        let open = lock(&self.open);
        let mut clients: Vec<_> =
            open.clients.iter().map(|((name, _), client)| (name.clone(), Arc::clone(client))).collect();
        clients.sort_by(|one, other| one.0.cmp(&other.0));
        clients
    }

    /// Counts a connection. `None` if there are too many.
    pub(crate) fn admit(&self, peer: Peer, socket: OwnedFd) -> Option<Arc<Standing>> {
        let mut open = lock(&self.open);
        if self.is_ending() {
            return None;
        }
        let verdict = open.rules.of(&peer);
        let identity = verdict.identity(&peer);
        let client = open.client(&identity, &verdict);
        // One client leaves room for others, and few of its connections wait for its memory.
        let most = (self.most / 4).min(client.memory.limit() / CONNECTION + WAITING);
        let is_full = open.standings.len() >= self.most || client.connections.load(Ordering::Relaxed) >= most;
        open.last += 1;
        let number = open.last;
        let standing = Arc::new(Standing { number, peer, identity, verdict, client, socket });
        if !is_full {
            standing.client.connections.fetch_add(1, Ordering::Relaxed);
            open.standings.insert(number, Arc::clone(&standing));
            return Some(standing);
        }
        standing.note_refusal("too many connections");
        None
    }

    /// Forgets a connection.
    pub(crate) fn remove(&self, standing: &Standing) {
        lock(&self.open).standings.remove(&standing.number);
        standing.client.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Standing {
    /// Counts a connection that is refused. At the default level the log names each client once.
    pub(crate) fn note_refusal(&self, reason: &str) {
        let client = &self.identity;
        match self.client.figures.refused_connections.fetch_add(1, Ordering::Relaxed) {
            0 => error!(client, reason, "a connection is refused"),
            _ => debug!(client, reason, "a connection is refused"),
        }
    }
}

impl Open {
    /// Returns what the connections of a client share.
    fn client(&mut self, identity: &str, verdict: &Verdict) -> Arc<Client> {
        let limit = verdict.rule().and_then(|rule| rule.memory).map_or(MEMORY, Memory::bytes);
        let rule = if let Verdict::Rule(number, _) = verdict { Some(*number) } else { None };
        let new = || {
            let (requests, memory) = (Quota::new(limit), Quota::new(limit));
            let (connections, figures) = Default::default();
            Arc::new(Client { rule, connections, requests, memory, runs: Runs::new(), figures })
        };
        let key = (identity.to_owned(), matches!(verdict, Verdict::Refused));
        let client = self.clients.entry(key).or_insert_with(new);
        // The rules were read again. The connections under the old rule have ended, or end now.
        if (client.rule, client.memory.limit()) != (rule, limit) {
            *client = new();
        }
        Arc::clone(client)
    }

    /// Ends connections: in both directions, or for new messages only.
    fn end(&self, direction: Shutdown, ends: impl Fn(&Standing) -> bool) -> usize {
        let mut ended = 0;
        for standing in self.standings.values().filter(|standing| ends(standing)) {
            // A peer that is gone has no connection to end.
            let _ = shutdown(&standing.socket, direction);
            ended += 1;
        }
        ended
    }
}

impl Agent {
    /// Reads the rules and the files that they name again. Wrong ones change nothing. Connections
    /// that would now be refused, or have another rule, end.
    pub fn reload(&self, path: Option<&Path>) -> Result<(), String> {
        let rules = Rules::read(path)?;
        rules.faults().iter().for_each(|fault| error!("{fault}"));
        let mut open = lock(&self.register.open);
        let listen = |rules: &Rules| rules.tls.as_ref().map(|tls| tls.listen);
        if listen(&open.rules) != listen(&rules) {
            error!("[tls] listen: another address needs a restart of the agent");
        }
        open.rules = Arc::new(rules);
        let is_other = |standing: &Standing| !open.rules.of(&standing.peer).is_same(&standing.verdict);
        self.end(&open, is_other);
        Ok(())
    }

    /// Ends the connections of a client, or of all, but not that of the administrator who asks.
    /// Their tickets are void: a login needs the PIN. So are those of a client that has not
    /// connected since the start. Fails with a reason if no client can have the name.
    pub(crate) fn lock_out(&self, client: Option<&str>, asks: &Standing) -> Result<Reply<'static>, String> {
        let open = lock(&self.register.open);
        let is_known = |client: &str| open.clients.keys().any(|(name, _)| name == client);
        if let Some(client) = client.filter(|client| !is_known(client) && !open.rules.may_name(client)) {
            let mut known: Vec<_> = open.clients.keys().map(|(name, _)| name.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            let more = if known.len() > SHOWN { ", ..." } else { "" };
            known.truncate(SHOWN);
            let known = known.join("; ");
            return Err(format!(
                "by these rules no client has the name {client:?}; known are: {known}{more}"
            ));
        }
        let written = self.tickets.lock(client);
        let ends = |standing: &Standing| {
            standing.number != asks.number && client.is_none_or(|client| client == standing.identity)
        };
        let ended = self.end(&open, ends);
        if let Err(error) = written {
            error!(%error, ended, "the tickets of a client are void until the agent ends only");
            return Err("the list of locked clients cannot be written; the log says why".to_owned());
        }
        Ok(match client {
            Some(client) if !is_known(client) => Reply::Unknown,
            _ => Reply::Done(ended as u64),
        })
    }

    /// Ends connections, and the applications that such connections started. Otherwise another
    /// connection would join an application while one of its calls still runs.
    fn end(&self, open: &Open, ends: impl Fn(&Standing) -> bool) -> usize {
        let ended = open.end(Shutdown::Both, &ends);
        for application in lock(&self.applications).values() {
            if ends(&application.standing) {
                application.is_ended.store(true, Ordering::Release);
            }
        }
        ended
    }

    /// Stops in order: takes no connection and no call, waits for calls that run, and closes the
    /// tokens, so that the audit log is complete and the files of the tokens have all changes.
    pub fn stop(self: &Arc<Self>) {
        {
            let open = lock(&self.register.open);
            self.register.is_ending.store(true, Ordering::Release);
            open.end(Shutdown::Read, |_| true);
        }
        let start = Instant::now();
        while self.register.len() != 0 && start.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(5));
        }
        let left: Vec<_> = lock(&self.applications).drain().map(|(_, application)| application).collect();
        let agent = Arc::clone(self);
        // A call that still runs may hold a session.
        let (says, hears) = mpsc::channel();
        thread::spawn(move || {
            // Nothing is left to do if one of them fails.
            for application in left {
                let _ = application.module.finalize();
            }
            let _ = agent.module.finalize();
            says.send(())
        });
        if hears.recv_timeout(CLOSE).is_err() {
            error!("a call does not end: the audit log may lack its last lines");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::peer::Unit;

    #[test]
    fn a_peer_of_an_unknown_unit_gives_its_user_no_new_memory() {
        let rules = "[[client]]\nuid = 1\nunit = 'web.service'\n[[client]]\nuid = 1\nsessions = 1";
        let register = Register::new(Rules::parse(rules).expect("rules"));
        let admit = |unit| {
            let peer = Peer::User { uid: 1, groups: vec![], has_all_groups: true, unit, process: 1 };
            let (socket, _) = UnixStream::pair().expect("sockets");
            register.admit(peer, socket.into()).expect("a connection")
        };
        let first = admit(Unit::None);
        assert!(matches!(admit(Unit::Unknown).verdict, Verdict::Refused));
        assert!(Arc::ptr_eq(&first.client, &admit(Unit::None).client));
    }
}
