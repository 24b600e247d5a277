//! Searches: their results, the order, and values that a search cannot guess.

use crate::prelude::*;

#[test]
fn a_search_finds_objects_that_have_all_attributes() {
    let (client, session) = one_user();
    let a = client.create(session, &data("a")).expect("data");
    let b = client.create(session, &data("b").stored()).expect("data");
    let (public, private) = pair(&client, session, Kind::P256, &none().label("a"));
    for (wanted, found) in [
        // Token objects come last.
        (none(), vec![a, public, private, b]),
        (none().label("a"), vec![a, public, private]),
        (data("a"), vec![a]),
        (none().number(A::CLASS, ObjectClass::DATA.0), vec![a, b]),
        (none().number(A::KEY_TYPE, KeyType::EC.0), vec![public, private]),
        (none().flag(A::TOKEN, true), vec![b]),
        (none().flag(A::SIGN, true), vec![private]),
        (none().bytes(A::LABEL, b""), vec![]),
        (none().bytes(A::ID, b""), vec![public, private]),
        (none().label("c"), vec![]),
        (none().bytes(A(0x8000_0001), b"x"), vec![]),
    ] {
        assert_eq!(client.find(session, &wanted), found);
    }
    let malformed = none().bytes(A::CLASS, &[1]);
    assert_eq!(client.find_init(session, &malformed.template()), Err(Error::AttributeValueInvalid));
}

#[test]
fn search_results_are_returned_in_batches_and_ended_by_final() {
    let (client, session) = one_user();
    let mut out = [ObjectHandle(0); 4];
    let made: Vec<_> = (0..6).map(|_| client.create(session, &data("a")).expect("data")).collect();
    client.find_init(session, &none().template()).expect("a search");
    // An object that is created after the start of a search is not in its results.
    client.create(session, &data("late")).expect("data");
    assert_eq!(client.module.find(session, &mut []), Ok(0));
    assert_eq!((client.module.find(session, &mut out), &out[..]), (Ok(4), &made[..4]));
    assert_eq!((client.module.find(session, &mut out), &out[..2]), (Ok(2), &made[4..]));
    assert_eq!(client.module.find(session, &mut out), Ok(0));
    assert_eq!(client.find_final(session), Ok(()));
    assert_eq!(client.module.find(session, &mut out), Err(Error::OperationNotInitialized));
}

#[test]
fn searches_of_two_sessions_are_independent() {
    let (client, one) = one_user();
    let two = client.open();
    let made = [client.create(one, &data("a")), client.create(one, &data("a"))];
    let [first, second] = made.map(|object| object.expect("data"));
    client.find_init(one, &none().template()).expect("a search");
    client.find_init(two, &none().template()).expect("a search");
    let next = |session| {
        let mut out = [ObjectHandle(0)];
        client.module.find(session, &mut out).expect("a search");
        out[0]
    };
    assert_eq!([next(one), next(two), next(one), next(two)], [first, first, second, second]);
}
