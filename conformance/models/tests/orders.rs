//! The models. Each runs in thousands of orders of its threads' steps.

use std::collections::HashSet;
use std::sync::Arc;

use cryptoki_sys::{CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_CRYPTOKI_NOT_INITIALIZED, CKR_OK};
use jeton_models::abi::{finalize, initialize, other};
use jeton_models::error::Error;
use jeton_models::id::SessionHandle;
use jeton_models::object::access::Login;
use jeton_models::table::SessionTable;
use jeton_models::token::Token;
use jeton_models::{Session, fork, sync};
use shuttle::thread;

/// The number of orders for each model.
const ORDERS: usize = 5_000;

fn in_many_orders(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, ORDERS);
}

fn open(table: &SessionTable) -> SessionHandle {
    table.open(0, |handle| Ok(Session { handle, uses: 0 })).expect("a session")
}

/// Uses a session, and counts the uses in it.
fn used(table: &SessionTable, handle: SessionHandle) -> Result<u32, Error> {
    table.with(handle, |session| {
        assert_eq!(session.handle, handle, "another session under this handle");
        session.uses += 1;
        Ok(session.uses)
    })
}

#[test]
fn a_handle_belongs_to_one_session_only() {
    in_many_orders(|| {
        let table = Arc::new(SessionTable::default());
        let shared = open(&table);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let table = Arc::clone(&table);
                thread::spawn(move || {
                    // The slot of the shared session becomes free, and one of these threads may
                    // take it again.
                    let closed = table.close(shared).is_ok();
                    let own = open(&table);
                    assert_eq!(used(&table, own), Ok(1));
                    assert!(used(&table, shared).is_err(), "closed by this thread or by another");
                    assert_eq!(used(&table, own), Ok(2));
                    assert!(table.close(own).is_ok());
                    assert!(table.close(own).is_err(), "closed twice");
                    (closed, own)
                })
            })
            .collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("a thread")).collect();
        assert_eq!(ends.iter().filter(|(closed, _)| *closed).count(), 1, "closed once");
        let handles: HashSet<_> = ends.iter().map(|(_, own)| own.0).chain([shared.0]).collect();
        assert_eq!(handles.len(), 4, "no handle twice");
    });
}

#[test]
fn closing_all_sessions_is_safe_while_sessions_are_opened_and_used() {
    in_many_orders(|| {
        let table = Arc::new(SessionTable::default());
        let first = open(&table);
        let user = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let second = open(&table);
                [used(&table, first).is_ok(), used(&table, second).is_ok()]
            })
        };
        // As in C_CloseAllSessions: collects the sessions, then closes them.
        let mut there = Vec::new();
        table.for_each(None, |session| there.push(session.handle));
        assert!(there.contains(&first));
        for handle in &there {
            table.close(*handle).expect("no other thread closes");
        }
        let [_, second] = user.join().expect("a thread");
        assert!(second || there.len() == 2, "a session is usable unless it was seen and closed");
        assert!(used(&table, first).is_err());
    });
}

#[test]
fn a_session_that_cannot_be_created_frees_its_slot() {
    in_many_orders(|| {
        let table = Arc::new(SessionTable::default());
        let refused = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.open(0, |_| Err(Error::DeviceRemoved)).err())
        };
        let own = open(&table);
        assert_eq!(refused.join().expect("a thread"), Some(Error::DeviceRemoved));
        assert_eq!(used(&table, own), Ok(1));
        assert_ne!(open(&table), own);
    });
}

#[test]
fn no_change_of_an_epoch_is_lost() {
    in_many_orders(|| {
        let token = Arc::new(Token::default());
        let before = token.epoch();
        let run = |work: fn(&Token)| {
            let token = Arc::clone(&token);
            thread::spawn(move || work(&token))
        };
        // In the token, a lock protects logins and logouts. Threads destroy objects without this
        // lock.
        let login = run(|token| {
            token.publish(Login::User);
            token.publish(Login::Public);
            token.publish(Login::SecurityOfficer);
        });
        let destroyed = [run(|token| token.bump()), run(|token| token.bump())];
        // An epoch from before an event never returns.
        let seen = token.epoch();
        token.bump();
        assert!(token.epoch() > seen);
        login.join().expect("a thread");
        destroyed.into_iter().for_each(|thread| thread.join().expect("a thread"));
        assert_eq!(token.login(), Login::SecurityOfficer);
        assert_eq!((token.epoch() >> 2) - (before >> 2), 6, "three logins and logouts, three new epochs");
    });
}

#[test]
fn a_key_found_before_an_event_is_not_used_after_it() {
    in_many_orders(|| {
        let token = Arc::new(Token::default());
        let there = Arc::new(shuttle::sync::atomic::AtomicBool::new(true));
        let order = std::sync::atomic::Ordering::SeqCst;
        let destroyer = {
            let (token, there) = (Arc::clone(&token), Arc::clone(&there));
            // The object is removed, then the epoch changes, then the call returns.
            thread::spawn(move || {
                there.store(false, order);
                token.bump();
            })
        };
        // As in `renew_or_arm` of `src/session.rs`: reads the epoch first, then looks the
        // object up.
        let epoch = token.epoch();
        let found = there.load(order);
        destroyer.join().expect("a thread");
        assert!(token.epoch() != epoch || !found, "a key that is destroyed would sign");
    });
}

#[test]
fn only_one_thread_at_a_time_starts_or_stops_the_library() {
    in_many_orders(|| {
        sync::begin();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                thread::spawn(|| {
                    let started = initialize();
                    assert!([CKR_OK, CKR_CRYPTOKI_ALREADY_INITIALIZED].contains(&started));
                    let (rv, _) = other();
                    assert!([CKR_OK, CKR_CRYPTOKI_NOT_INITIALIZED].contains(&rv));
                    let stopped = finalize();
                    assert!([CKR_OK, CKR_CRYPTOKI_NOT_INITIALIZED].contains(&stopped));
                    (started, stopped)
                })
            })
            .collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("a thread")).collect();
        let started = ends.iter().filter(|(started, _)| *started == CKR_OK).count();
        let stopped = ends.iter().filter(|(_, stopped)| *stopped == CKR_OK).count();
        assert_eq!(started, stopped, "each start has its end");
        assert_eq!(other(), (CKR_CRYPTOKI_NOT_INITIALIZED, false));
        assert_eq!(initialize(), CKR_OK);
        assert_eq!(other(), (CKR_OK, true));
        assert_eq!(finalize(), CKR_OK);
    });
}

#[test]
fn a_child_always_starts_without_a_module() {
    in_many_orders(|| {
        sync::begin();
        // The first C_Initialize installs the handlers.
        assert_eq!(initialize(), CKR_OK);
        let busy = thread::spawn(|| {
            assert_eq!(finalize(), CKR_OK);
            assert_eq!(initialize(), CKR_OK);
            assert_eq!(finalize(), CKR_OK);
        });
        // Meanwhile the other thread can reach any point of its work.
        (0..12).for_each(|_| sync::step());
        let (tell, told) = shuttle::sync::mpsc::channel();
        fork(move || {
            assert_eq!(other().0, CKR_CRYPTOKI_NOT_INITIALIZED);
            assert_eq!(finalize(), CKR_CRYPTOKI_NOT_INITIALIZED);
            assert_eq!(initialize(), CKR_OK);
            assert_eq!(other(), (CKR_OK, true));
            assert_eq!(initialize(), CKR_CRYPTOKI_ALREADY_INITIALIZED);
            assert_eq!(finalize(), CKR_OK);
            tell.send(()).expect("the parent of the test");
        });
        busy.join().expect("a thread");
        told.recv().expect("the child");
        // The parent's module continues.
        assert_eq!(initialize(), CKR_OK);
        assert_eq!(other(), (CKR_OK, true));
        assert_eq!(finalize(), CKR_OK);
    });
}
