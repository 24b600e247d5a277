//! `kill -9` of processes, and crashes of the server (`pg_ctl stop --mode=immediate`), at any
//! moment.

use super::*;

pub fn case() {
    let rounds: u64 = number("JETON_CRASH_DATABASE_ROUNDS", 3);
    let server = Server::start("kill", "-c fsync=off").expect("a server");
    let mut workers = Workers::new(&server.url());
    let mut crashes = 0;
    for round in 0..rounds {
        workers.start();
        pause(&mut workers, 500);
        match round % 4 {
            0 => workers.kill_one(),
            1 => {
                workers.kill_one();
                workers.kill_one();
            }
            which => {
                crashes += 1;
                server.crash();
                if which == 3 {
                    workers.kill_one();
                }
                pause(&mut workers, 300);
                server.start_again();
                // In some rounds long enough for the processes to connect again.
                pause(&mut workers, 1500);
            }
        }
        pause(&mut workers, 200);
        workers.kill_and_check(|| server.sql(CONNECTIONS));
    }
    workers.report(&format!("{rounds} rounds, {crashes} crashes of the server"));
    // A process has one call in flight when it is killed, and one when the server crashes.
    assert!(workers.counts.done_in_doubt <= WORKERS as u64 * (rounds + crashes));
}

fn pause(workers: &mut Workers, end: u64) {
    sleep(Duration::from_millis(workers.random.below(end)));
}
