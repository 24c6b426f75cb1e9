//! Turns over each wire, with retries, proxies and connections that are kept.
#![cfg(test)]

mod abilities;
mod keep_alive;
mod proxy;
mod retry;
mod wire;
mod wire_gemini;
mod wire_responses;
