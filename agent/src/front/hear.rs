//! What workers say and ask, and what the front answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, error, warn};

use super::owner_queues::MOST_CONNECTIONS;
use super::pin_tries::{Answers, Asker, Login};
use super::{Front, State, WORKER, Worker, leave};
use crate::link::{Answer, Link, Question, ToFront, ToWorker};
use crate::lock;
use crate::ticket::Tickets;

/// The longest serial number in a question.
const MOST_SERIAL: usize = 64;

impl Front {
    /// Does what a worker says, until it ends.
    pub(super) fn hear(self: &Arc<Self>, worker: u64, link: &Link) {
        let mut is_ready = false;
        loop {
            let reason = match link.receive() {
                Ok(None) => break,
                Ok(Some((ToFront::Ready(missing), _))) if !is_ready => {
                    is_ready = true;
                    lock(&self.missing).insert(WORKER, missing);
                    continue;
                }
                Ok(Some((message, _))) => {
                    // A fault of the front costs this worker, and not the thread that forgets it.
                    let work = || self.lock().handle(&self.tickets, worker, message);
                    match catch_unwind(AssertUnwindSafe(work)) {
                        Ok(Some(())) => continue,
                        _ => "no right process says so".to_owned(),
                    }
                }
                Err(error) => error.to_string(),
            };
            error!(reason, "the process of a client is ended");
            break;
        }
        let Some(mut gone) = self.lock().remove(worker) else { return };
        let client = &gone.client.0;
        match gone.process.end() {
            Ok(status) if status.success() => debug!(client, "the process of a client has ended"),
            Ok(status) => error!(client, %status, "the process of a client has ended"),
            Err(error) => error!(client, %error, "the process of a client has ended"),
        }
    }
}

impl State {
    pub(super) fn deliver(&mut self, answers: Answers) {
        for ((worker, question), answer) in answers {
            if let Some(worker) = self.workers.get_mut(&worker) {
                worker.process.send(&ToWorker::Answer(question, answer), None);
            }
        }
    }

    /// Does what a worker says. `None` if no worker says so that keeps to this file.
    fn handle(&mut self, tickets: &Tickets, number: u64, message: ToFront) -> Option<()> {
        let worker = self.workers.get_mut(&number)?;
        match message {
            ToFront::Taken => worker.process.taken(),
            ToFront::Closed(connection) => {
                self.connections.get(&connection).filter(|standing| standing.worker == number)?;
                let standing = self.connections.remove(&connection)?;
                leave(&mut self.owners, &standing.owner);
                worker.connections -= 1;
                worker.idle = Instant::now();
                self.clients.get_mut(&worker.client)?.connections -= 1;
            }
            ToFront::Began(connection, name, single) => {
                let standing =
                    self.connections.get(&connection).filter(|standing| standing.worker == number)?;
                (worker.applications.len() < MOST_CONNECTIONS).then_some(())?;
                worker.applications.insert(name, (standing.peer.clone(), single));
            }
            ToFront::Ended(name) => {
                worker.applications.remove(&name);
            }
            ToFront::Ask(question, what) => {
                (worker.asked.insert(question) && worker.asked.len() <= MOST_CONNECTIONS).then_some(())?;
                let answers = self.ask(tickets, number, question, what)?;
                self.deliver(answers);
            }
            ToFront::Done(question, outcome) => {
                // Otherwise a worker could ask without a limit.
                worker.asked.remove(&question).then_some(())?;
                let is_it = |asker: &Asker| *asker == (number, question);
                let answers = self.pins.end(is_it, Some(outcome));
                self.deliver(answers);
                let answers = self.runs.end(is_it);
                self.deliver(answers);
            }
            ToFront::Applications(part) => {
                worker.reports.coming.extend(part);
                (worker.reports.coming.len() <= MOST_CONNECTIONS).then_some(())?;
            }
            ToFront::Report(report) => {
                let reports = &mut worker.reports;
                reports.last = *report;
                reports.applications = std::mem::take(&mut reports.coming);
                reports.reported = reports.asked.take();
                if std::mem::take(&mut reports.is_wanted) {
                    worker.ask_for_report();
                }
            }
            ToFront::Ready(_) | ToFront::Host(_) | ToFront::Figures => return None,
        }
        Some(())
    }

    fn ask(&mut self, tickets: &Tickets, number: u64, question: u64, what: Question) -> Option<Answers> {
        let worker = self.workers.get(&number)?;
        if worker.stops.is_some() {
            // Its calls end without an answer.
            return Some(Vec::new());
        }
        let (asker, client) = ((number, question), &worker.client.0);
        let owner = worker.owner.clone();
        let now = |answer| vec![(asker, answer)];
        Some(match what {
            Question::Try(token, ..) | Question::Pin(token, _) if token.len() > MOST_SERIAL => return None,
            Question::Try(token, user, mark) => self.pins.begin(asker, &owner, (token, user, mark)),
            Question::Run => self.runs.begin(asker, &owner),
            Question::Pin(token, mark) => match worker.verdict.rule()?.pin() {
                Ok(pin) => self.pins.begin_own(Login { asker, owner, mark, pin }, token),
                Err(reason) => now(Answer::NoPin(format!("no PIN: {reason}"))),
            },
            Question::Before(connection, name) => {
                let standing =
                    self.connections.get(&connection).filter(|standing| standing.worker == number)?;
                let before = self.workers.values().find(|other| other.applications.contains_key(&name));
                let Some(before) = before else { return Some(now(Answer::Refused)) };
                let (from, (process, single)) = (&before.client.0, &before.applications[&name]);
                // An open connection shows that the process was that client. Another process of
                // this client has another number, whatever it knows of the application.
                let is_ended = before.is_old || before.stops.is_some() || before.client == worker.client;
                if is_ended || !standing.peer.is_process_of(process) {
                    let reason = "another process, or one that the agent cannot see";
                    warn!(peer = client, from, reason, "an application does not go on as another client");
                    return Some(now(Answer::Refused));
                }
                now(Answer::Before(from.clone(), tickets.key_of(from), *single))
            }
        })
    }
}

impl Worker {
    /// Asks for a report that is of this time or later.
    pub(super) fn ask_for_report(&mut self) {
        if self.reports.asked.is_some() {
            self.reports.is_wanted = true;
        } else {
            self.reports.asked = Some(Instant::now());
            self.process.send(&ToWorker::Report, None);
        }
    }
}
