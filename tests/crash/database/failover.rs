//! The primary server crashes, and its synchronous standby becomes the primary, again and again.

use super::cluster::Cluster;
use super::*;

/// The number of failovers that each process lives through.
const EACH: u64 = 5;

pub fn case() {
    let failovers: u64 = number("JETON_CRASH_FAILOVERS", 1);
    let mut cluster = Cluster::start();
    let mut workers = Workers::new(&cluster.url());
    let sql = format!("SELECT change FROM {}.token", workers.directory.schema());
    let mut longest = Duration::ZERO;
    for round in 1..=failovers {
        if workers.running.is_empty() {
            workers.start();
        }
        sleep(Duration::from_millis(300 + workers.random.below(500)));
        let start = Instant::now();
        cluster.fail_over();
        cluster.add_standby();
        let change = || cluster.sql(&sql).parse::<u64>().expect("a change number");
        let first = change();
        jeton_child::until(LONGEST_OUTAGE, "no changes after a failover", || change() >= first + 10);
        longest = longest.max(start.elapsed());
        if round % EACH == 0 || round == failovers {
            sleep(Duration::from_millis(workers.random.below(500)));
            workers.kill_and_check(|| cluster.sql(CONNECTIONS));
        }
    }
    workers.report(&format!("{failovers} failovers, at most {longest:?} until the next changes"));
}
