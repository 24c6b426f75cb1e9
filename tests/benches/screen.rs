//! Measures the conversation on a pseudo-terminal: the time from the start of the program to the first prompt on the
//! screen, and while a model streams about a thousand pieces a second: frames, the processor time of the whole program
//! (the node and the log included), and the time from a key to the screen. `cargo bench --bench screen`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::time::{Duration, Instant};

use common::{Site, Terminal, all, says, script};
use serde_json::json;

const ROUNDS: usize = 15;
/// How long the stream is watched.
const WATCHED: Duration = Duration::from_secs(10);
const PIECE: &str = "word ";
/// The sequence that begins a frame.
const FRAME: &str = "\x1b[?2026h";
/// Clock ticks a second in `/proc`.
const TICKS: f64 = 100.0;

fn main() {
    first_frame();
    stream();
}

fn first_frame() {
    let site = Site::scripted(&script(json!([says("never")])));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt();
        times.push(began.elapsed());
        terminal.press("\x04").wait();
    }
    times.sort_unstable();
    println!(
        "start to the first prompt: {:.1} ms, at best {:.1} ms",
        ms(times[ROUNDS / 2]),
        ms(times[0])
    );
}

fn stream() {
    let text = PIECE.repeat(20_000);
    let reply = json!({ "chunk": PIECE.len(), "delay_ms": 1, "parts": [{ "text": text }] });
    let site = Site::scripted(&script(json!([reply])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("go\r").until("word word");
    let began = Instant::now();
    let (ticks, frames) = (processor_ticks(&terminal), frames(&terminal));
    let mut latencies = Vec::new();
    let mut typed = String::new();
    while began.elapsed() < WATCHED {
        let key = char::from(b'a' + u8::try_from(typed.len() % 26).unwrap());
        typed.push(key);
        let pressed = Instant::now();
        terminal.press(&key.to_string()).until(&format!("› {typed}"));
        latencies.push(pressed.elapsed());
        if typed.len() == 40 {
            terminal.press("\x15").until("Esc interrupts");
            typed.clear();
        }
        // a person types slower than the screen is drawn
        terminal.read_for(Duration::from_millis(40));
    }
    let seconds = began.elapsed().as_secs_f64();
    let frames = f64::from(u32::try_from(self::frames(&terminal) - frames).unwrap());
    let used = (processor_ticks(&terminal) - ticks) / TICKS;
    terminal.press("\x15").press("\x03").until("interrupted").until_prompt().press("\x04").wait();
    let events = site.exported();
    let streamed = all(&events, "model.streamed").into_iter().flat_map(|event| {
        let parts = event["data"]["parts"].as_array().unwrap().iter();
        parts.map(|part| part["text"].as_str().unwrap().len()).collect::<Vec<_>>()
    });
    let pieces = streamed.sum::<usize>() / PIECE.len();
    latencies.sort_unstable();
    println!("streamed: {pieces} pieces in {seconds:.1} s");
    println!("frames a second: {:.1}", frames / seconds);
    println!("processor time: {:.1} % of a core", used / seconds * 100.0);
    println!(
        "key to screen: {:.1} ms, at p99 {:.1} ms, {} keys",
        ms(latencies[latencies.len() / 2]),
        ms(latencies[latencies.len() * 99 / 100]),
        latencies.len()
    );
}

fn frames(terminal: &Terminal) -> usize {
    terminal.raw.matches(FRAME).count()
}

/// The processor time of the program so far.
fn processor_ticks(terminal: &Terminal) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.id())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    ticks(11) + ticks(12)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
