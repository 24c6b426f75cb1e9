//! Turns over each wire, with retries, proxies and kept connections.
#![cfg(test)]

use common::{Answer, Server, Site, Split, with_crlf};
use serde_json::Value;

mod abilities;
mod bedrock_credentials;
mod keep_alive;
mod proxy;
mod retry;
mod sign_in;
mod vertex;
mod vertex_accounts;
mod wire;
mod wire_bedrock;
mod wire_gemini;
mod wire_responses;

/// How the bytes of a reply arrive: with which line endings, and cut into which chunks.
type Arrival = (fn(&str) -> String, Split);

const AT_ONCE: Arrival = (str::to_owned, Split::Whole);

const ARRIVALS: [Arrival; 6] = [
    AT_ONCE,
    (str::to_owned, Split::EveryByte),
    (str::to_owned, Split::Awkward),
    (with_crlf, Split::Whole),
    (with_crlf, Split::EveryByte),
    (with_crlf, Split::Awkward),
];

/// The first turn of a model that replies like this, in a project with two files.
fn tool_turn(
    site: fn(&Server) -> Site,
    replies: &[String],
    (ending, split): Arrival,
) -> (Site, Server, Vec<Value>) {
    let answers = replies.iter().map(|reply| Answer::Stream(ending(reply), split)).collect();
    let server = Server::start(answers);
    let site = site(&server);
    site.file("größe.txt", "Sie ist klein 🐁.\n");
    site.file("b.txt", "b\n");
    let events = site.prompt("Mach sie größer").ok().events();
    (site, server, events)
}
