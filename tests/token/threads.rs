//! Threads on one token, and a token whose file was tampered with.

use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M};
use jeton::module::Output;
use rusqlite::Connection;

use crate::keys::{Kind, RSA, pair};
use crate::support::{Client, data, each_backend, none, plain};

#[test]
fn eight_threads_sign_with_one_key_in_sessions_of_their_own() {
    const THREADS: u8 = 8;
    const SIGNATURES: u8 = 20;
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (kind, id) in
            [(Kind::P256, M::ECDSA_SHA256), (Kind::Ed25519, M::EDDSA), (Kind::Rsa, M::SHA256_RSA_PKCS)]
        {
            let (public, private) = pair(&client, session, kind, &none().stored());
            let with = plain(id);
            let signed: Vec<_> = std::thread::scope(|scope| {
                let work = |thread: u8| {
                    let session = client.open();
                    let signed: Vec<_> = (0..SIGNATURES)
                        .map(|number| {
                            let data = [thread, number];
                            (data, client.sign(session, &with, private, &data).expect("a signature"))
                        })
                        .collect();
                    client.module.close_session(session).expect("a session");
                    signed
                };
                let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
            });
            assert_eq!(signed.len(), usize::from(THREADS) * usize::from(SIGNATURES));
            for (data, signature) in signed {
                assert_eq!(client.verify(session, &with, public, &data, &signature), Ok(()), "{kind:?}");
            }
        }
    });
}

#[test]
fn sessions_open_and_close_while_others_sign_and_search() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Ed25519, &none().stored());
        let with = plain(M::EDDSA);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (client, with) = (&client, &with);
                scope.spawn(move || {
                    for number in 0..25 {
                        let session = client.open();
                        client.create(session, &data("of a session")).expect("data");
                        assert_eq!(client.find(session, &none().flag(A::SIGN, true)), [private]);
                        let data = [thread, number];
                        let signature = client.sign(session, with, private, &data).expect("a signature");
                        assert_eq!(client.verify(session, with, public, &data, &signature), Ok(()));
                        client.module.close_session(session).expect("a session");
                    }
                });
            }
        });
        assert_eq!(client.find(session, &none()), [public, private]);
    });
}

#[test]
fn changes_of_two_threads_to_one_object_both_stay() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for template in [RSA.public.clone(), RSA.public.clone().stored()] {
            for round in 0..20u8 {
                let object = client.create(session, &template).expect("a key");
                let changes = [none().bytes(A::LABEL, &[round]), none().bytes(A::ID, &[round])];
                std::thread::scope(|scope| {
                    for change in &changes {
                        let client = &client;
                        scope.spawn(move || client.set(session, object, change).expect("a change"));
                    }
                });
                for id in [A::LABEL, A::ID] {
                    assert_eq!(client.read(session, object, id).expect("a value"), [round], "{id}");
                }
            }
        }
    });
}

/// Changes one byte of a record of the token's file, in place of the attacker.
fn flip(client: &Client, unique_id: &[u8]) {
    let files = std::fs::read_dir(client.directory.path()).expect("the directory");
    let file = files
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "jeton"))
        .expect("a token file");
    let connection = Connection::open(file).expect("the token file");
    connection.busy_timeout(std::time::Duration::from_secs(20)).expect("a connection");
    let records: Vec<(i64, Vec<u8>)> = connection
        .prepare("SELECT id, record FROM object")
        .expect("the table")
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("records")
        .map(|row| row.expect("a record"))
        .collect();
    // A public record is found by what can be read in it, the private one is the other.
    let named = |record: &[u8]| record.windows(unique_id.len()).any(|window| window == unique_id);
    let (id, mut record) = match records.iter().position(|(_, record)| named(record)) {
        Some(at) => records[at].clone(),
        None => records.iter().find(|(_, record)| record[1] == 1).expect("a private record").clone(),
    };
    *record.last_mut().expect("bytes") ^= 1;
    connection.execute("UPDATE object SET record = ?2 WHERE id = ?1", (id, record)).expect("a write");
}

#[test]
fn an_altered_private_record_is_refused_and_the_others_are_usable() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let altered = client.create(session, &data("altered").stored().flag(A::PRIVATE, true));
        let id = client.read(session, altered.expect("data"), A::UNIQUE_ID).expect("an identifier");
        client.create(session, &data("sound").stored()).expect("data");
        flip(&client, &id);
        let other = Client::beside(&client.directory, provider, "");
        let session = other.user();
        assert_eq!(other.find(session, &data("altered")), []);
        other.find_one(session, &data("sound"));
        let (public, private) = pair(&other, session, Kind::P256, &none().stored());
        let with = plain(M::ECDSA_SHA256);
        let signature = other.sign(session, &with, private, b"data").expect("a signature");
        assert_eq!(other.verify(session, &with, public, b"data", &signature), Ok(()));
    });
}

#[test]
fn an_altered_public_record_is_refused_at_the_login() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::P256, &none().stored());
        let id = client.read(session, public, A::UNIQUE_ID).expect("an identifier");
        flip(&client, &id);
        client.module.logout(session).expect("the user");
        client.login(session);
        assert_eq!(client.find(session, &none().flag(A::VERIFY, true)), []);
        assert_eq!(client.module.object(session, public).err(), Some(Error::ObjectHandleInvalid));
        let again = client.find_one(session, &none().flag(A::SIGN, true));
        assert_ne!(again, private);
        let with = plain(M::ECDSA_SHA256);
        client.module.sign_init(session, &with, again).expect("an operation");
        let signed = client.module.sign(session, b"data", Output::Buffer(&mut [0; 64]));
        assert_eq!(signed, Ok(64));
    });
}
