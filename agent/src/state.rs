//! What the agent tells its administrator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jeton::functions::TokenInfo;
use jeton::id::token_flag;
use jeton_agent_wire::status::{OfApplication, OfClient, OfToken, PinState, Status};

use crate::Application;
use crate::figures::Figures;
use crate::register::Client;
use crate::rules::label;
use crate::{Agent, lock};

impl Agent {
    /// Returns what the agent counts.
    pub(crate) fn status(&self) -> Status {
        let applications = self.applications();
        let sessions: usize = applications.iter().map(|application| application.module.session_count()).sum();
        let (requests, times) = self.latencies.quantiles();
        let clients = self.register.clients();
        Status {
            seconds: self.started.elapsed().as_secs(),
            applications: applications.len() as u64,
            connections: self.register.len() as u64,
            sessions: sessions as u64,
            clients: clients.into_iter().map(|(client, counted)| of_client(client, &counted)).collect(),
            tokens: self.tokens(),
            requests,
            times,
        }
    }

    /// Returns the applications, the oldest first.
    pub(crate) fn list(&self) -> Vec<OfApplication> {
        let mut applications = self.applications();
        applications.sort_by_key(|application| application.since);
        let of_application = |application: &Arc<Application>| OfApplication {
            client: application.standing.identity.clone(),
            user: user(&application.standing.identity),
            process: Some(application.standing.peer.process()).filter(|process| *process != 0),
            sessions: application.module.session_count() as u64,
            connections: application.connections.load(Ordering::Relaxed) as u64,
            seconds: application.since.elapsed().as_secs(),
        };
        applications.iter().map(of_application).collect()
    }

    fn applications(&self) -> Vec<Arc<Application>> {
        lock(&self.applications).values().map(Arc::clone).collect()
    }

    fn tokens(&self) -> Vec<OfToken> {
        let slots = self.module.slots().unwrap_or_default();
        let tokens = slots.into_iter().filter_map(|slot| self.module.token(slot).ok());
        let initialised = tokens.filter(|token| token.flags & token_flag::TOKEN_INITIALIZED != 0);
        initialised.map(|token| of_token(&token)).collect()
    }
}

fn of_client(client: String, counted: &Client) -> OfClient {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Figures { calls, refused, refused_connections } = &counted.figures;
    OfClient {
        user: user(&client),
        client,
        rule: counted.rule.map(|rule| rule as u64),
        connections: counted.connections.load(Ordering::Relaxed) as u64,
        calls: count(calls),
        refused: count(refused),
        refused_connections: count(refused_connections),
    }
}

fn of_token(token: &TokenInfo) -> OfToken {
    let state = |is_set: bool, low, last, locked| match token.flags {
        _ if !is_set => PinState::Unset,
        flags if flags & locked != 0 => PinState::Locked,
        flags if flags & last != 0 => PinState::LastTry,
        flags if flags & low != 0 => PinState::Wrong,
        _ => PinState::Good,
    };
    let is_set = token.flags & token_flag::USER_PIN_INITIALIZED != 0;
    OfToken {
        label: label(token).to_owned(),
        serial: token.serial.clone(),
        pin: state(
            is_set,
            token_flag::USER_PIN_COUNT_LOW,
            token_flag::USER_PIN_FINAL_TRY,
            token_flag::USER_PIN_LOCKED,
        ),
        so_pin: state(
            true,
            token_flag::SO_PIN_COUNT_LOW,
            token_flag::SO_PIN_FINAL_TRY,
            token_flag::SO_PIN_LOCKED,
        ),
    }
}

fn user(client: &str) -> Option<String> {
    let uid = client.strip_prefix("uid ")?.split(',').next()?.parse().ok()?;
    Some(nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok()??.name)
}
