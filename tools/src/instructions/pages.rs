//! Fetches instructions from the web. Building a prompt waits for them, so each page is fetched
//! once and then cached for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{Instructions, Problem, instructions};
use crate::webfetch::plain;

/// Time limit for all pages together.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a page.
const MAX_PAGE: u64 = 1024 * 1024;

/// How long a page is cached, and how long a failure is.
const CACHE_LIFETIME: Duration = Duration::from_secs(60 * 60);
const FAILURE_LIFETIME: Duration = Duration::from_secs(60);

type Fetched = Result<Option<Instructions>, Problem>;

/// Each entry holds until its time.
type PageCache = HashMap<(String, bool), (Instant, Fetched)>;

/// The texts of the pages, in order; `None` for an empty page. Takes at most five seconds, and no
/// time if all are cached. `private` allows addresses that are not public.
///
/// # Errors
/// For each page that could not be fetched, the reason.
/// In place of a text: it could not be fetched, and why.
pub fn fetch(addresses: &[String], private: bool) -> Vec<Fetched> {
    static KNOWN: Mutex<Option<PageCache>> = Mutex::new(None);
    let now = Instant::now();
    let missing: Vec<String> = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        known.retain(|_, (until, _)| *until > now);
        let is_known = |address: &&String| known.contains_key(&((*address).clone(), private));
        addresses.iter().filter(|address| !is_known(address)).cloned().collect()
    };
    let fetched = if missing.is_empty() { Vec::new() } else { fetch_now(missing.clone(), private) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    for (address, fetched) in missing.into_iter().zip(fetched) {
        let until =
            Instant::now() + if fetched.is_ok() { CACHE_LIFETIME } else { FAILURE_LIFETIME };
        known.insert((address, private), (until, fetched));
    }
    let gone = |address: &str| Err(Problem::new(plain::shown(address), "it was not fetched"));
    let of =
        |address: &String| known.get(&(address.clone(), private)).map(|(_, found)| found.clone());
    addresses.iter().map(|address| of(address).unwrap_or_else(|| gone(address))).collect()
}

/// Runs on a thread with its own runtime, because the caller may or may not be inside one.
fn fetch_now(addresses: Vec<String>, private: bool) -> Vec<Fetched> {
    let thread = std::thread::Builder::new().name("instructions".into());
    let fetching = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return Vec::new() };
        let all = addresses.iter().map(|address| fetch_one(address, private));
        let fetched = runtime.block_on(futures::future::join_all(all));
        // a DNS lookup may still be under way
        runtime.shutdown_background();
        fetched
    });
    // without a thread none of them is fetched, which their problems say
    let wait = || fetching.map_or_else(|_| Vec::new(), |thread| thread.join().unwrap_or_default());
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        Ok(_) | Err(_) => wait(),
    }
}

async fn fetch_one(address: &str, private: bool) -> Fetched {
    let shown = plain::shown(address);
    let problem = |problem: String| Problem::new(shown.clone(), problem);
    let fetched = tokio::time::timeout(TIMEOUT, plain::text(address, private, MAX_PAGE)).await;
    let late = |_| problem(format!("no answer within {} s", TIMEOUT.as_secs()));
    // most errors begin with the address, which the problem names already
    let failed = |error: crate::Error| {
        let text = if let crate::Error::InvalidArguments { problem, .. } = error {
            problem
        } else {
            error.to_string()
        };
        let text = text.strip_prefix(&shown).unwrap_or(&text);
        problem(text.trim_start_matches([':', ' ']).to_owned())
    };
    let text = fetched.map_err(late)?.map_err(failed)?;
    Ok(instructions(shown.clone(), None, &text, false))
}
