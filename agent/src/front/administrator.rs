//! What the administrator asks: at a socket of its own, because the front reads no byte of a
//! client.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::status::{OfApplication, OfClient, OfDirectory, OfFunction, OfMechanism, Status};
use jeton_agent_wire::{self as wire, Malformed, Reply, Request};
use jeton_words::mechanism::MECHANISMS;
use nix::unistd::{Uid, User};
use serde::Serialize;
use tracing::{error, warn};

use super::owner_queues::accepted;
use super::{Front, LOCK, MOST_WORKERS, Worker};
use crate::figures::{buckets, quantiles};
use crate::link::{Counted, Report};
use crate::lock;
use crate::peer::Peer;
use crate::token_headers;

/// The longest question in bytes: a name of a client.
const LONGEST: usize = 64 << 10;
/// The most questions at the same time, and those for the status: it may wait for a store that
/// hangs, and a client must be locked meanwhile.
const MOST: usize = 16;
const MOST_STATUS: usize = MOST / 2;
/// How long an administrator may take.
const PROGRESS: Duration = Duration::from_secs(5);
/// How long workers may take for a report. One that runs needs less, also on a busy machine.
const REPORT: Duration = Duration::from_secs(2);
/// How long the tokens may take to be listed.
const TOKENS: Duration = Duration::from_secs(3);
/// The most names of clients in an answer.
const SHOWN: usize = 20;

/// A place among questions of one kind that are answered at the same time, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Returns a place, unless this number are taken.
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(taken));
        // Dropped without a place, it gives back what it has just taken.
        (place.0.fetch_add(1, Ordering::AcqRel) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Front {
    /// Answers root, and the members of this group, for ever.
    pub fn serve_administrators(self: &Arc<Self>, listener: &UnixListener, group: Option<u32>) {
        let (all, statuses) = (Arc::default(), Arc::default());
        loop {
            let Some(stream) = accepted(listener) else { continue };
            let may = |peer: &Peer| match peer {
                Peer::User { uid, groups, .. } => {
                    *uid == 0 || group.is_some_and(|group| groups.contains(&group))
                }
                Peer::Certificate { .. } => false,
            };
            // Others take no place, and their bytes are not read.
            if !Peer::of(&stream).is_ok_and(|peer| may(&peer)) {
                self.refuse(stream);
                continue;
            }
            let Some(place) = Place::take(&all, MOST) else {
                warn!("too many administrators ask at once");
                continue;
            };
            let (front, statuses) = (Arc::clone(self), Arc::clone(&statuses));
            let work = move || {
                let _place = place;
                if let Err(error) = front.answer(stream, &statuses) {
                    warn!(%error, "an administrator has no answer");
                }
            };
            if let Err(error) = thread::Builder::new().spawn(work) {
                warn!(%error, "no thread for an administrator");
            }
        }
    }

    fn answer(&self, stream: UnixStream, statuses: &Arc<AtomicUsize>) -> io::Result<()> {
        stream.set_read_timeout(Some(PROGRESS))?;
        stream.set_write_timeout(Some(PROGRESS))?;
        let mut channel = Channel::new(stream, 0);
        channel.receive(LONGEST, |_| true)?;
        let (message, frame) = channel.parts();
        let malformed = |_: Malformed| io::Error::from(io::ErrorKind::InvalidData);
        let request = wire::decode::<Request<'_>>(message).map_err(malformed)?;
        let answered = match request {
            Request::Status => match Place::take(statuses, MOST_STATUS) {
                Some(_place) => reported(Reply::Status, &self.status(), frame),
                None => wire::encode(&Reply::Refused("many administrators ask at once"), frame)
                    .map_err(Malformed::from),
            },
            Request::Applications => reported(Reply::Applications, &self.list(), frame),
            Request::Lock(client) => {
                let locked = self.lock_out(client);
                let reply = locked.as_ref().map_or_else(
                    |reason| Reply::Refused(reason),
                    |reply| match reply {
                        Some(ended) => Reply::Done(*ended),
                        None => Reply::Unknown,
                    },
                );
                wire::encode(&reply, frame).map_err(Malformed::from)
            }
            _ => Err(Malformed),
        };
        answered.map_err(malformed)?;
        channel.send()
    }

    /// Asks all workers what they count, and waits for the answers of those that run.
    fn gather(&self) {
        let asked = Instant::now();
        self.lock().workers.values_mut().for_each(Worker::ask_for_report);
        let has_reported = |worker: &Worker| worker.reports.reported.is_some_and(|time| time >= asked);
        while asked.elapsed() < REPORT {
            if self.lock().workers.values().all(|worker| worker.stops.is_some() || has_reported(worker)) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns what the agent counts.
    pub(super) fn status(&self) -> Status {
        self.gather();
        let tokens = token_headers::ask(TOKENS).unwrap_or_else(|error| {
            error!(%error, "the tokens are not listed");
            Vec::new()
        });
        let state = self.lock();
        let mut all = Report::default();
        let mut clients: BTreeMap<_, OfClient> = BTreeMap::new();
        for (key, client) in &state.clients {
            let mut counted = Report::default();
            counted.add(&client.ended);
            for worker in state.workers.values().filter(|worker| worker.client == *key) {
                counted.add(&worker.reports.last);
            }
            // One name may be that of a client, and of peers that no rule allows.
            let of = clients.entry(key.0.clone()).or_insert_with(|| OfClient::new(&key.0));
            of.rule = of.rule.or(client.rule.map(|rule| rule as u64));
            of.connections += client.connections as u64;
            of.calls += counted.calls();
            of.refused += counted.refused;
            of.refused_connections += client.refused_connections + counted.refused_connections;
            of.wrong_pins += counted.wrong_pins;
            of.failed_logins += counted.failed_logins;
            all.add(&counted);
        }
        let clients: Vec<_> = clients.into_values().collect();
        let applications = || state.workers.values().flat_map(|worker| worker.reports.applications.values());
        let (applications, sessions, connections) = (
            applications().count() as u64,
            applications().map(|application| application.sessions).sum(),
            state.connections.len() as u64,
        );
        let (workers, failed_workers) = (state.workers.len() as u64, state.failed);
        // A source of names may be slow.
        drop(state);
        let named = |client: OfClient| OfClient { user: user(&client.client), ..client };
        let (functions, mechanisms) = (functions(&all), mechanisms(&all));
        let counts = all.times.into_iter().collect();
        let (requests, times) = quantiles(&counts);
        let directories = self.directories.iter().filter_map(|path| directory(path)).collect();
        Status {
            seconds: self.started.elapsed().as_secs(),
            applications,
            connections,
            sessions,
            clients: clients.into_iter().map(named).collect(),
            tokens,
            requests,
            times,
            missing: lock(&self.missing)
                .iter()
                .flat_map(|(process, missing)| missing.iter().map(move |what| format!("{process}: {what}")))
                .collect(),
            sum: all.sum as f64 / 1e9,
            buckets: buckets(&counts),
            functions,
            mechanisms,
            workers: [workers, MOST_WORKERS as u64],
            most_connections: self.most as u64,
            failed_workers,
            directories,
            backup: self.backups.as_deref().and_then(newest),
        }
    }

    /// Returns the applications, the oldest first.
    fn list(&self) -> Vec<OfApplication> {
        self.gather();
        let state = self.lock();
        let mut all = Vec::new();
        for worker in state.workers.values() {
            for (name, Counted { sessions, connections, seconds }) in &worker.reports.applications {
                let process = worker.applications.get(name).map_or(0, |(peer, _)| peer.process());
                let (client, process) = (worker.client.0.clone(), Some(process).filter(|id| *id != 0));
                let (sessions, connections, seconds) = (*sessions, *connections, *seconds);
                all.push(OfApplication { client, user: None, process, sessions, connections, seconds });
            }
        }
        drop(state);
        all.sort_by_key(|application| std::cmp::Reverse(application.seconds));
        for application in &mut all {
            application.user = user(&application.client);
        }
        all
    }

    /// Ends the connections of a client, or of all. Their tickets are void: a login needs the PIN.
    /// So are those of a client that has not connected since the start. Returns the number of
    /// connections that end; `None` if there was no such client. Fails with a reason if no client
    /// can have the name.
    fn lock_out(&self, client: Option<&str>) -> Result<Option<u64>, String> {
        let (written, ended, is_known) = {
            let mut state = self.lock();
            let is_known = |client: &str| state.clients.keys().any(|(name, _)| name == client);
            let is_known = client.is_none_or(is_known);
            if let Some(client) = client.filter(|client| !is_known && !state.rules.may_name(client)) {
                let known: HashSet<_> = state.clients.keys().map(|(name, _)| name.as_str()).collect();
                let mut known: Vec<_> = known.into_iter().collect();
                known.sort_unstable();
                let more = if known.len() > SHOWN { ", ..." } else { "" };
                known.truncate(SHOWN);
                let known = known.join("; ");
                return Err(format!(
                    "by these rules no client has the name {client:?}; known are: {known}{more}"
                ));
            }
            let written = self.tickets.lock(client);
            let is_locked = |name: &str| client.is_none_or(|client| client == name);
            let ended = state.connections.values().filter(|standing| is_locked(&standing.client.0)).count();
            let workers: Vec<_> = state
                .workers
                .iter()
                .filter(|(_, worker)| is_locked(&worker.client.0))
                .map(|(number, _)| *number)
                .collect();
            for worker in workers {
                state.stop(worker, Instant::now() + LOCK);
            }
            (written, ended, is_known)
        };
        thread::sleep(LOCK);
        self.end_idle();
        if let Err(error) = written {
            error!(%error, ended, "the tickets of a client are void until the agent ends only");
            return Err("the list of locked clients cannot be written; the log says why".to_owned());
        }
        Ok(is_known.then_some(ended as u64))
    }
}

/// Makes the frame of an answer.
fn reported(reply: Reply<'_>, report: &impl Serialize, frame: &mut Vec<u8>) -> Result<(), Malformed> {
    wire::start(frame);
    wire::append(&reply, frame)?;
    wire::append(report, frame)?;
    Ok(wire::finish(frame)?)
}

/// Returns the functions that were called, by their names. Two functions of the agent may be one of
/// PKCS#11.
fn functions(report: &Report) -> Vec<OfFunction> {
    let mut all = BTreeMap::<_, [u64; 2]>::new();
    for (function, counts) in &report.functions {
        let both = all.entry(function.name()).or_default();
        *both = [both[0] + counts[0], both[1] + counts[1]];
    }
    let of_function = |(function, [calls, failed]): (&str, [u64; 2])| OfFunction {
        function: function.to_owned(),
        calls,
        failed,
    };
    all.into_iter().map(of_function).collect()
}

/// Returns the mechanisms that calls named, by their names.
fn mechanisms(report: &Report) -> Vec<OfMechanism> {
    let of_mechanism = |(index, calls): &(u16, u64)| {
        // A worker that was taken over may report any number.
        let mechanism = MECHANISMS.get(usize::from(*index))?.id.to_string();
        Some(OfMechanism { mechanism, calls: *calls })
    };
    let mut all: Vec<_> = report.mechanisms.iter().filter_map(of_mechanism).collect();
    all.sort_by(|one, other| one.mechanism.cmp(&other.mechanism));
    all
}

/// Returns the space of the file system of a directory.
fn directory(path: &Path) -> Option<OfDirectory> {
    let space = rustix::fs::statvfs(path).ok()?;
    let [free, size] = [space.f_bavail, space.f_blocks].map(|blocks| blocks * space.f_frsize);
    Some(OfDirectory { path: path.display().to_string(), free, size })
}

/// Returns a directory of backups, and when the newest file in it was written.
fn newest(directory: &Path) -> Option<(String, u64)> {
    let files = fs::read_dir(directory).ok()?.flatten().filter_map(|entry| entry.metadata().ok());
    let times = files.filter(Metadata::is_file).filter_map(|file| file.modified().ok());
    let newest = times.max()?.duration_since(UNIX_EPOCH).ok()?;
    Some((directory.display().to_string(), newest.as_secs()))
}

fn user(client: &str) -> Option<String> {
    let uid = client.strip_prefix("uid ")?.split(',').next()?.parse().ok()?;
    Some(User::from_uid(Uid::from_raw(uid)).ok()??.name)
}
